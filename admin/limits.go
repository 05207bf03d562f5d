package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/abide-proxy/abide/policy"
)

// maxSite is longer than any name of a site.
const maxSite = 512

// SiteLimit is a limit that is written for a site, or one of those that each has its
// own of, with what is left.
type SiteLimit struct {
	Site   string `json:"-"`
	Limit  string `json:"limit"`
	Of     string `json:"of,omitempty"` // whose it is, when each has its own
	Amount int64  `json:"amount"`
	Left   int64  `json:"left"` // -1: nobody knows
	// Most is what can be left at most, where that is not the amount: the burst of a
	// bucket. The listener leaves out what is equal.
	Most int64 `json:"most,omitempty"`
	// Rate is what an adaptive limit allows now, per second; 0 for others.
	Rate   float64 `json:"rate,omitempty"`
	Unit   string  `json:"unit"`
	Per    string  `json:"per,omitempty"`
	Shared bool    `json:"shared"` // with the other instances
	Kept   bool    `json:"kept"`   // over a restart
}

// NotKept is an error of limits that hold in this process, but were not kept.
type NotKept struct{ Err error }

func (n NotKept) Error() string { return n.Err.Error() }
func (n NotKept) Unwrap() error { return n.Err }

// siteLimits is what holds for a site, as it may be written again.
type siteLimits struct {
	Site   string          `json:"site"`
	Set    bool            `json:"set"` // at run time, and not by the configuration
	Limits json.RawMessage `json:"limits"`
}

// limits tells what holds for a site.
func (d *desk) limits(w http.ResponseWriter, r *http.Request) {
	if site, ok := named(w, r); ok {
		d.answerLimits(w, site)
	}
}

// setLimits has a site keep other limits, until they are cleared.
func (d *desk) setLimits(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok {
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if d.SetLimits == nil {
		refuse(w, http.StatusNotImplemented, "this process cannot set limits")
		return
	}
	if err := d.SetLimits(r.Context(), site, body); err != nil {
		refuseLimits(w, err)
		return
	}
	d.answerLimits(w, site)
}

// clearLimits gives a site those of the configuration again.
func (d *desk) clearLimits(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok || !readJSON(w, r, &struct{}{}) {
		return
	}
	if d.ClearLimits == nil {
		refuse(w, http.StatusNotImplemented, "this process cannot set limits")
		return
	}
	switch set, err := d.ClearLimits(r.Context(), site); {
	case err != nil:
		refuseLimits(w, err)
	case !set:
		refuse(w, http.StatusNotFound, "no limits were set for "+quoted(site)+" at run time")
	default:
		d.answerLimits(w, site)
	}
}

// named is the site that a path names. It answers the request itself when that cannot
// be one.
func named(w http.ResponseWriter, r *http.Request) (string, bool) {
	site := r.PathValue("site")
	if site == "" || len(site) > maxSite || !utf8.ValidString(site) || strings.ContainsFunc(site, func(c rune) bool { return printable(c) != c }) {
		refuse(w, http.StatusNotFound, "there can be no site of that name")
		return "", false
	}
	return site, true
}

func (d *desk) answerLimits(w http.ResponseWriter, site string) {
	limits, set := d.holdFor(site)
	says := siteLimits{Site: site, Set: set}
	text, err := policy.FormatLimits(limits)
	if err == nil {
		err = json.Unmarshal(text, &says)
	}
	if err != nil {
		panic(fmt.Errorf("writing the limits of a site: %w", err))
	}
	answerJSON(w, says)
}

// holdFor are the limits of a site, and whether they were set at run time.
func (d *desk) holdFor(site string) (limits []policy.Limit, set bool) {
	if limits, set = d.overrides()[site]; set {
		return limits, true
	}
	p := d.Policy()
	if rule := p.RuleOf(site); rule != nil {
		return rule.Limits, false
	}
	if _, err := policy.ParseTarget("https", site); err != nil {
		return nil, false
	}
	return p.Defaults.Limits, false
}

// overrides are the limits that were set at run time, by site.
func (d *desk) overrides() map[string][]policy.Limit {
	if d.Overrides == nil {
		return nil
	}
	return d.Overrides()
}

// refuseLimits says what is wrong with limits, and where.
func refuseLimits(w http.ResponseWriter, err error) {
	var faults policy.Faults
	var missing Missing
	var notKept NotKept
	switch {
	case errors.As(err, &faults):
		p := faultProblem{problem{Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest, Detail: detailOf(faults[0])}, faultsOf(faults)}
		for i := range p.Faults {
			p.Faults[i].File = "" // the body's
		}
		answer(w, p.Status, "application/problem+json", p)
	case errors.As(err, &missing):
		refuse(w, http.StatusNotFound, detailOf(err))
	case errors.As(err, &notKept):
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, detailOf(err))
	default:
		refuse(w, http.StatusUnprocessableEntity, detailOf(err))
	}
}

// maxFaults is how many faults of one body an answer lists.
const maxFaults = 20

// faultProblem is a problem with what is wrong where.
type faultProblem struct {
	problem
	Faults []Fault `json:"faults,omitempty"`
}

// oneLine is a text that somebody else wrote: one line of bounded length.
func oneLine(text string) string { return detailOf(errors.New(text)) }

// limitsNow are those that are written, of one site or of all, by name. The slice is
// the caller's.
func (d *desk) limitsNow(site string) []SiteLimit {
	if d.Limits == nil {
		return nil
	}
	var list []SiteLimit
	for _, one := range d.Limits() {
		if site == "" || one.Site == site {
			one.Left, one.Rate = max(one.Left, -1), finite(one.Rate)
			if one.Most == one.Amount {
				one.Most = 0
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b SiteLimit) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Of, b.Of))
	})
	return list
}
