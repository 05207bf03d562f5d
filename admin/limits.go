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
func (l *limits) show(_ http.ResponseWriter, _ *http.Request, site string) (any, error) {
	return l.says(site), nil
}

// says tells which limits hold for a site.
func (l *limits) says(site string) status.SiteLimits {
	limits, set := l.of(site)
	says := status.SiteLimits{Site: site, Set: set}
	text, err := policy.FormatLimits(limits)
	if err == nil {
		err = json.Unmarshal(text, &says)
	}
	if err != nil {
		panic(fmt.Errorf("writing the limits of a site: %w", err))
	}
	return says
}

// set has a site keep other limits, until they are cleared.
func (l *limits) set(w http.ResponseWriter, r *http.Request, site string) (any, error) {
	body, err := readBody(w, r)
	if err == nil {
		err = failed(http.StatusUnprocessableEntity, l.proxy.SetLimits(r.Context(), site, body))
	}
	return l.says(site), err
}

// clear gives a site those of the configuration again.
func (l *limits) clear(_ http.ResponseWriter, r *http.Request, site string) (any, error) {
	set, err := l.proxy.ClearLimits(r.Context(), site)
	if err == nil && !set {
		err = status.Missing("no limits were set for " + quoted(site) + " at run time")
	}
	return l.says(site), failed(http.StatusUnprocessableEntity, err)
}

// forget forgets what was learned of the sites of a host.
func (l *limits) forget(_ http.ResponseWriter, _ *http.Request, host string) (any, error) {
	list, err := l.proxy.Forget(host)
	return list, failed(http.StatusUnprocessableEntity, err)
}

// ofNamed is an endpoint that gets the site that the path names. A request that names none is refused.
func ofNamed(answer func(w http.ResponseWriter, r *http.Request, site string) (any, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		if site := r.PathValue("site"); isSite(site) {
			return answer(w, r, site)
		}
		return nil, errNoSite
	}
}

const errNoSite = status.Missing("there can be no site of that name")

// isSite tells whether a site can have a name. None leads out of a path.
func isSite(name string) bool {
	return name != "" && len(name) <= maxSite && !strings.Contains("/"+name+"/", "/../") && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return status.Printable(c) != c })
}

// button sets or clears the limits of a site for the page, which is then shown again.
func (l *limits) button(w http.ResponseWriter, r *http.Request) (any, error) {
	err := readForm(w, r)
	site := r.PostForm.Get("site")
	switch do := r.PostForm.Get("do"); {
	case err != nil:
	case !isSite(site):
		err = errNoSite
	case do == "set":
		err = failed(http.StatusUnprocessableEntity, l.proxy.SetLimits(r.Context(), site, []byte(r.PostForm.Get("limits"))))
	case do == "clear":
		_, err = l.proxy.ClearLimits(r.Context(), site) // where none was set there is nothing to clear
		err = failed(http.StatusUnprocessableEntity, err)
	default:
		err = errors.New("do must be set or clear")
	}
	return pageOf(site), err
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

// FaultsOf are the faults of an error that has any, at most maxFaults.
func FaultsOf(err error) []status.Fault {
	const maxFaults = 20 // the largest number of faults of one body that an answer lists
	faults, _ := errors.AsType[policy.Faults](err)
	return lists.Map(faults[:min(len(faults), maxFaults)], func(fault policy.Fault) status.Fault {
		return status.Fault{File: status.Line(fault.Source), Line: fault.Line, Key: status.Line(fault.Key), Text: status.Line(fault.Text)}
	})
}

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
