package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
func (l *limits) show(w http.ResponseWriter, r *http.Request) {
	if site, ok := named(w, r); ok {
		l.answer(w, site)
	}
}

// set has a site keep other limits, until they are cleared.
func (l *limits) set(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok {
		return
	}
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
func (l *limits) clear(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok || !readJSON(w, r, &struct{}{}) {
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

// named is the site that a path names. It answers the request itself when that cannot
// be one.
func named(w http.ResponseWriter, r *http.Request) (string, bool) {
	site := r.PathValue("site")
	if !isSite(site) {
		refuse(w, http.StatusNotFound, "there can be no site of that name")
		return "", false
	}
	return site, true
}

// isSite tells whether a site can have a name.
func isSite(name string) bool {
	return name != "" && len(name) <= maxSite && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return status.Printable(c) != c })
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
	http.Redirect(w, r, siteURL(site), http.StatusSeeOther)
}

// text is the limits of a site as they may be written, a line for each.
func (l *limits) text(site string) (text string, set bool) {
	limits, set := l.of(site)
	written, err := policy.FormatLimits(limits)
	var says struct{ Limits []json.RawMessage }
	if err == nil {
		err = json.Unmarshal(written, &says)
	}
	if err != nil {
		panic(fmt.Errorf("writing the limits of a site: %w", err))
	}
	if len(says.Limits) == 0 {
		return "limits: []\n", set
	}
	var b strings.Builder
	b.WriteString("limits:\n")
	for _, one := range says.Limits {
		fmt.Fprintf(&b, "- %s\n", one)
	}
	return b.String(), set
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

// pauses are the endpoints about pauses of sites.
type pauses struct {
	of    Proxy
	sites *sites
}

// pauseAsk is the body of a request for a pause. Both may be missing.
type pauseAsk struct {
	Reason string `json:"reason"`
	For    string `json:"for"` // how long, such as 1h; "": until the site is resumed
}

// pause lets no request go to a site.
func (p pauses) pause(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok {
		return
	}
	var ask pauseAsk
	if !readJSON(w, r, &ask) {
		return
	}
	warning := p.unseen(r.Context(), site)
	if p.begin(w, r, site, ask) {
		p.answer(w, site, warning)
	}
}

// begin pauses a site, or answers the request itself.
func (p pauses) begin(w http.ResponseWriter, r *http.Request, site string, ask pauseAsk) bool {
	pause := status.Pause{Reason: ask.Reason, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if ask.For != "" {
		d, err := policy.ParseDuration(ask.For)
		if err != nil {
			refuse(w, http.StatusBadRequest, quoted(ask.For)+" is no time for a pause; write for example 30m or 2h")
			return false
		}
		pause.Until = pause.Since.Add(d)
	}
	if err := p.of.PauseSite(r.Context(), site, pause); err != nil {
		refuseLimits(w, err)
		return false
	}
	return true
}

// resume lets requests go to a site again.
func (p pauses) resume(w http.ResponseWriter, r *http.Request) {
	site, ok := named(w, r)
	if !ok || !readJSON(w, r, &struct{}{}) {
		return
	}
	if p.end(w, r, site) {
		p.answer(w, site, "")
	}
}

// end resumes a site, or answers the request itself.
func (p pauses) end(w http.ResponseWriter, r *http.Request, site string) bool {
	switch paused, err := p.of.ResumeSite(r.Context(), site); {
	case err != nil:
		refuseLimits(w, err)
	case !paused:
		refuse(w, http.StatusNotFound, quoted(site)+" is not paused")
	default:
		return true
	}
	return false
}

// button pauses or resumes a site for the page, which is then shown again.
func (p pauses) button(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	site, done := r.PostForm.Get("site"), false
	switch r.PostForm.Get("do") {
	case "pause":
		reason := cmp.Or(strings.TrimSpace(r.PostForm.Get("reason")), "with the button on the page")
		done = p.begin(w, r, site, pauseAsk{Reason: reason, For: strings.TrimSpace(r.PostForm.Get("for"))})
	case "resume":
		done = p.end(w, r, site)
	default:
		refuse(w, http.StatusBadRequest, "do must be pause or resume")
	}
	if done {
		http.Redirect(w, r, backTo(r, site), http.StatusSeeOther)
	}
}

// unseen warns that nothing is known of a site that is to be paused, whose name may be misspelled; "" if something is.
func (p pauses) unseen(ctx context.Context, site string) string {
	known := p.sites.now(ctx, "", true)
	if known[site] != nil || p.sites.limits.policy().RuleOf(site) != nil {
		return ""
	}
	return "no such site was seen" + policy.DidYouMean(site, slices.Collect(maps.Keys(known)))
}

// answer says whether a site is paused.
func (p pauses) answer(w http.ResponseWriter, site, warning string) {
	says := status.SitePause{Site: site, Warning: warning}
	if pause, paused := p.of.Pauses()[site]; paused {
		says.Paused, says.Pause = true, &pause
	}
	answerJSON(w, says)
}
