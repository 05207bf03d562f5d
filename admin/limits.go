package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// maxSite is longer than any name of a site.
const maxSite = 512

// limits answers what is asked about the limits of sites.
type limits struct {
	policy func() *policy.Policy
	proxy  Proxy
}

// show tells what holds for a site.
func (l *limits) show(w http.ResponseWriter, _ *http.Request, site string) { l.answer(w, site) }

// set has a site keep other limits, until they are cleared.
func (l *limits) set(w http.ResponseWriter, r *http.Request, site string) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if err := l.proxy.SetLimits(r.Context(), site, body); err != nil {
		refuseLimits(w, err)
		return
	}
	l.answer(w, site)
}

// clear gives a site those of the configuration again.
func (l *limits) clear(w http.ResponseWriter, r *http.Request, site string) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	switch set, err := l.proxy.ClearLimits(r.Context(), site); {
	case err != nil:
		refuseLimits(w, err)
	case !set:
		refuse(w, http.StatusNotFound, "no limits were set for "+quoted(site)+" at run time")
	default:
		l.answer(w, site)
	}
}

// forget forgets what was learned of the sites of a host.
func (l *limits) forget(w http.ResponseWriter, r *http.Request, host string) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	list, err := l.proxy.Forget(host)
	if err != nil {
		refuseLimits(w, err)
		return
	}
	answerJSON(w, list)
}

// ofNamed is a handler that gets the site that the path names. A request that names none is refused.
func ofNamed(answer func(w http.ResponseWriter, r *http.Request, site string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if site := r.PathValue("site"); isSite(site) {
			answer(w, r, site)
		} else {
			refuse(w, http.StatusNotFound, "there can be no site of that name")
		}
	}
}

// isSite tells whether a site can have a name. None leads out of a path.
func isSite(name string) bool {
	return name != "" && len(name) <= maxSite && !strings.Contains("/"+name+"/", "/../") && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return status.Printable(c) != c })
}

// button sets or clears the limits of a site for the page, which is then shown again.
func (l *limits) button(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	site := r.PostForm.Get("site")
	if !isSite(site) {
		refuse(w, http.StatusNotFound, "there can be no site of that name")
		return
	}
	var err error
	switch r.PostForm.Get("do") {
	case "set":
		err = l.proxy.SetLimits(r.Context(), site, []byte(r.PostForm.Get("limits")))
	case "clear":
		_, err = l.proxy.ClearLimits(r.Context(), site) // where none was set there is nothing to clear
	default:
		refuse(w, http.StatusBadRequest, "do must be set or clear")
		return
	}
	if err != nil {
		refuseLimits(w, err)
		return
	}
	http.Redirect(w, r, "/?site="+url.QueryEscape(site), http.StatusSeeOther)
}

// text is the limits of a site as the configuration writes them, a line for each.
func (l *limits) text(site string) (text string, set bool) {
	limits, set := l.of(site)
	text, err := policy.LimitsText(limits)
	if err != nil {
		panic(fmt.Errorf("writing the limits of a site: %w", err))
	}
	return text, set
}

// answer says which limits hold for a site.
func (l *limits) answer(w http.ResponseWriter, site string) {
	limits, set := l.of(site)
	says := status.SiteLimits{Site: site, Set: set}
	text, err := policy.FormatLimits(limits)
	if err == nil {
		err = json.Unmarshal(text, &says)
	}
	if err != nil {
		panic(fmt.Errorf("writing the limits of a site: %w", err))
	}
	answerJSON(w, says)
}

// of are the limits of a site, and whether they were set at run time.
func (l *limits) of(site string) (limits []policy.Limit, set bool) {
	if limits, set = l.proxy.Overrides()[site]; set {
		return limits, true
	}
	p := l.policy()
	if rule := p.RuleOf(site); rule != nil {
		return rule.Limits, false
	}
	if _, err := policy.ParseTarget("https", site); err != nil {
		return nil, false
	}
	return p.Defaults.Limits, false
}

// refuseLimits says what is wrong with limits, and where.
func refuseLimits(w http.ResponseWriter, err error) {
	var faults policy.Faults
	var missing status.Missing
	var notKept status.NotKept
	switch {
	case errors.As(err, &faults):
		p := status.Problem{Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest, Detail: status.ErrorLine(faults[0]), Faults: FaultsOf(faults)}
		for i := range p.Faults {
			p.Faults[i].File = "" // the body's
		}
		answer(w, p.Status, "application/problem+json", p)
	case errors.As(err, &missing):
		refuse(w, http.StatusNotFound, status.ErrorLine(err))
	case errors.As(err, &notKept):
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, status.ErrorLine(err))
	default:
		refuse(w, http.StatusUnprocessableEntity, status.ErrorLine(err))
	}
}

// FaultsOf are the faults of an error that has any, at most maxFaults.
func FaultsOf(err error) []status.Fault {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		return nil
	}
	return lists.Map(faults[:min(len(faults), maxFaults)], func(fault policy.Fault) status.Fault {
		return status.Fault{File: status.Line(fault.Source), Line: fault.Line, Key: status.Line(fault.Key), Text: status.Line(fault.Text)}
	})
}

// maxFaults is the largest number of faults of one body that an answer lists.
const maxFaults = 20

// now are the limits that are written, of one site or of all, by name. The slice is
// the caller's.
func (l *limits) now(site string) []status.Limit {
	var list []status.Limit
	for _, one := range l.proxy.WrittenLimits() {
		if site == "" || one.Site == site {
			one.Left, one.Rate = max(one.Left, -1), status.Finite(one.Rate)
			if one.Most == one.Amount {
				one.Most = 0
			}
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b status.Limit) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Of, b.Of))
	})
	return list
}
