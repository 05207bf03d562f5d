package admin

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// pauses are the endpoints about pauses of sites.
type pauses struct {
	of    Proxy
	sites *sites
}

// pause lets no request go to a site.
func (p pauses) pause(w http.ResponseWriter, r *http.Request, site string) {
	var ask status.PauseAsk
	if !readJSON(w, r, &ask) {
		return
	}
	warning := p.unseen(r.Context(), site)
	if p.begin(w, r, site, ask) {
		p.answer(w, site, warning)
	}
}

// begin pauses a site, or answers the request itself.
func (p pauses) begin(w http.ResponseWriter, r *http.Request, site string, ask status.PauseAsk) bool {
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
func (p pauses) resume(w http.ResponseWriter, r *http.Request, site string) {
	if readJSON(w, r, &struct{}{}) && p.end(w, r, site) {
		p.answer(w, site, "")
	}
}

// try has a site that fails asked at once, and answers how it is then.
func (p pauses) try(w http.ResponseWriter, r *http.Request, site string) {
	if readJSON(w, r, &struct{}{}) && p.ask(w, site) {
		p.sites.one(w, r, site)
	}
}

// ask has those of some sites that fail asked at once. If none fails, it answers the request itself.
func (p pauses) ask(w http.ResponseWriter, sites ...string) (done bool) {
	err := error(status.Missing("no site is named"))
	for _, site := range sites {
		err = p.of.TrySite(site)
		done = done || err == nil
	}
	if !done {
		refuse(w, http.StatusNotFound, err.Error())
	}
	return done
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

// button pauses, resumes or tries a site for the page, which is then shown again.
func (p pauses) button(w http.ResponseWriter, r *http.Request) {
	if !readForm(w, r) {
		return
	}
	site, done := r.PostForm.Get("site"), false
	switch r.PostForm.Get("do") {
	case "pause":
		reason := cmp.Or(strings.TrimSpace(r.PostForm.Get("reason")), "with the button on the page")
		done = p.begin(w, r, site, status.PauseAsk{Reason: reason, For: strings.TrimSpace(r.PostForm.Get("for"))})
	case "resume":
		done = p.end(w, r, site)
	case "try":
		done = p.ask(w, r.PostForm["site"]...)
	default:
		refuse(w, http.StatusBadRequest, "do must be pause, resume or try")
	}
	if done {
		http.Redirect(w, r, backTo(r, "#sites"), http.StatusSeeOther)
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
