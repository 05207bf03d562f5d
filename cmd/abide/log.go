package main

import (
	"io"
	standard "log"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
)

func newLog(out io.Writer, p policy.Log) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	setLog(log, p)
	// Some libraries write to the standard log. Their lines may quote a
	// client or site, so they have level debug.
	standard.SetFlags(0)
	standard.SetOutput(debugWriter{log})
	return log
}

type debugWriter struct{ log *logrus.Logger }

func (w debugWriter) Write(p []byte) (int, error) {
	w.log.Debug("library: ", strings.TrimSpace(string(p)))
	return len(p), nil
}

// setLog configures a log, at start and on reload.
func setLog(log *logrus.Logger, p policy.Log) {
	if level, err := logrus.ParseLevel(p.Level); err == nil {
		log.SetLevel(level)
	}
	if p.Format == "json" {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
		return
	}
	_, onTerminal := log.Out.(*liveLine) // logrus does not know
	plain := os.Getenv("NO_COLOR") != ""
	log.SetFormatter(&sentences{logrus.TextFormatter{FullTimestamp: true, DisableColors: plain, ForceColors: onTerminal && !plain}})
}

// sentences formats entries as text, without the fields that the sentence of an entry says
// anyway. They are for programs, which read log.format: json.
type sentences struct{ logrus.TextFormatter }

// saidFields are the keys of the fields that a sentence says.
var saidFields = []string{"site", "token", "client", "limit", "reason"}

// Format formats an entry. A line of the access log is no sentence, and has all its fields.
func (s *sentences) Format(entry *logrus.Entry) ([]byte, error) {
	if _, access := entry.Data["url"]; access || len(entry.Data) == 0 {
		return s.TextFormatter.Format(entry)
	}
	shown := *entry
	shown.Data = maps.Clone(entry.Data)
	for _, key := range saidFields {
		delete(shown.Data, key)
	}
	return s.TextFormatter.Format(&shown)
}

// warnOfProxyVariables logs that abide itself ignores the usual proxy variables. Their
// values may hold a password and are not logged.
func warnOfProxyVariables(log *logrus.Logger, p *policy.Policy) {
	if p.Egress.Proxy != nil {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			log.Warnf("abide does not use its own %s; egress.proxy (ABIDE_EGRESS_PROXY) names the next hop, if there is one", name)
			return
		}
	}
}
