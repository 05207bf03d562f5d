package admin

import (
	"cmp"
	"context"
	"errors"
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
func (p pauses) pause(w http.ResponseWriter, r *http.Request, site string) (any, error) {
	var ask status.PauseAsk
	if err := readJSON(w, r, &ask); err != nil {
		return nil, err
	}
	warning := p.unseen(r.Context(), site)
	err := p.begin(r, site, ask)
	return p.answer(site, warning), err
}

// begin pauses a site.
func (p pauses) begin(r *http.Request, site string, ask status.PauseAsk) error {
	pause := status.Pause{Reason: ask.Reason, Since: time.Now().UTC().Truncate(time.Millisecond)}
	if ask.For != "" {
		d, err := policy.ParseDuration(ask.For)
		if err != nil {
			return errors.New(quoted(ask.For) + " is no time for a pause; write for example 30m or 2h")
		}
		pause.Until = pause.Since.Add(d)
	}
	return failed(http.StatusUnprocessableEntity, p.of.PauseSite(r.Context(), site, pause))
}

// resume lets requests go to a site again.
func (p pauses) resume(_ http.ResponseWriter, r *http.Request, site string) (any, error) {
	err := p.end(r, site)
	return p.answer(site, ""), err
}

// try has a site that fails asked at once, and answers how it is then.
func (p pauses) try(w http.ResponseWriter, r *http.Request, site string) (any, error) {
	if err := p.ask(site); err != nil {
		return nil, err
	}
	return p.sites.one(w, r, site)
}

// ask has those of some sites that fail asked at once. That none fails is an error.
func (p pauses) ask(sites ...string) error {
	err, done := error(status.Missing("no site is named")), false
	for _, site := range sites {
		err = p.of.TrySite(site)
		done = done || err == nil
	}
	if done {
		return nil
	}
	return err
}

// end resumes a site.
func (p pauses) end(r *http.Request, site string) error {
	paused, err := p.of.ResumeSite(r.Context(), site)
	if err == nil && !paused {
		err = status.Missing(quoted(site) + " is not paused")
	}
	return failed(http.StatusUnprocessableEntity, err)
}

// button pauses, resumes or tries a site for the page, which is then shown again.
func (p pauses) button(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := readForm(w, r); err != nil {
		return nil, err
	}
	site, err := r.PostForm.Get("site"), error(nil)
	switch r.PostForm.Get("do") {
	case "pause":
		reason := cmp.Or(strings.TrimSpace(r.PostForm.Get("reason")), "with the button on the page")
		err = p.begin(r, site, status.PauseAsk{Reason: reason, For: strings.TrimSpace(r.PostForm.Get("for"))})
	case "resume":
		err = p.end(r, site)
	case "try":
		err = p.ask(r.PostForm["site"]...)
	default:
		err = errors.New("do must be pause, resume or try")
	}
	return backTo(r, "#sites"), err
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
func (p pauses) answer(site, warning string) status.SitePause {
	says := status.SitePause{Site: site, Warning: warning}
	if pause, paused := p.of.Pauses()[site]; paused {
		says.Paused, says.Pause = true, &pause
	}
	return says
}
