package metrics

import (
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace begins the name of every series.
const namespace = "abide"

// other is the label of sites, tokens and routes beyond the maximum.
const other = "other"

// maxRoutes bounds the labelled routes of a token, and limits of a site. The rest is
// "other".
const maxRoutes = 64

// maxLabel is longer than any host name.
const maxLabel = 255

// label makes a valid label value of any bytes. A value that is not UTF-8 would make
// Prometheus reject the whole scrape.
func label(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxLabel {
		return s
	}
	end := maxLabel
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// pair is the label values of a child; the second is "" if there is one label.
type pair [2]string

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// describe sends descriptions.
func describe(to chan<- *prometheus.Desc, list ...*prometheus.Desc) {
	for _, one := range list {
		to <- one
	}
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

// names are the values of a label that are in use.
type names map[string]bool

// label is the label of a name, "other" if there are too many.
func (n names) label(name string) string {
	name = label(name)
	if !n[name] && len(n) >= maxRoutes {
		return other
	}
	n[name] = true
	return name
}

func gaugeOf(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

var (
	requestsDesc = desc("requests_total", "Requests that were answered, by the site or by abide.", "site", "method", "code")
	bytesDesc    = desc("site_bytes_total", "Bytes on the connections to a site, headers and TLS included: in is from the site.", "site", "direction")
	durationDesc = desc("upstream_duration_seconds", "How long a site took to answer.", "site")
	waitDesc     = desc("queue_wait_seconds", "How long requests were held before they could go.", "site")
	replaysDesc  = desc("replays_total", "Requests that were sent once more, by why.", "site", "reason")
	refusalsDesc = desc("refusals_total", "Answers of a site that refused a request because of a limit, by what they are about.", "site", "scope")
	unreadDesc   = desc("https_unread_total", "Connections of https (CONNECT) that passed unread, by why: requests inside cannot be counted, and limits are not seen.", "site", "reason")
)
