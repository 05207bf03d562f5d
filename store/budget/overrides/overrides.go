// Package overrides has the limits and pauses that the operator sets for sites at run time. It
// saves them over restarts and, with a shared store, for every instance.
package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// Patience bounds reading or writing a document.
	Patience = 5 * time.Second
	// readEvery is the time between two readings of documents without news of a change.
	readEvery = time.Minute
	// mostSites bounds the sites with limits or pauses of their own.
	mostSites = 10_000
)

// errNoSuchSite is for a name that no request can have as its site.
var errNoSuchSite error = status.Missing("a site is a host, host:port, domain or rule's name, in lower case")

var (
	errManySites = errors.New("as many sites have limits or pauses that were set at run time as there may be; remove some first")
	errNoTokens  = errors.New("limits by token need a rule with a pool for the site")
)

// Overrides are the limits and pauses that were set at run time. They are safe for
// concurrent use.
type Overrides struct {
	o       Options
	unsaved *unsaved // documents that are not written yet
	wake    signal.Signal
	now     atomic.Pointer[bySite]
}

// Options are the dependencies of Overrides. All but Documents are needed.
type Options struct {
	Documents store.Documents // nil: the limits end with the process
	Shared    bool            // by other instances
	Plans     Plans
	// Others reads the documents of other kinds, each time that some may have changed. It
	// is called while other instances use the store.
	Others   func(ctx context.Context)
	Together func() bool // tells whether other instances use the store now
	Log      *logrus.Logger
}

// Plans applies limits.
type Plans interface {
	sync.Locker // held while the limits change
	Policy() *policy.Policy
	// Fits returns why a site cannot have the limits. The lock is held.
	Fits(site string, limits []policy.Limit) error
	// Apply applies the limits of All. The lock is held.
	Apply()
}

// Override has the operator's settings for a site.
type Override struct {
	Limits []policy.Limit // nil: those of its rule
	Pause  *status.Pause  // nil: it is not paused
}

func (o Override) isEmpty() bool { return o.Limits == nil && o.Pause == nil }

type bySite = map[string]Override

// New makes Overrides. There are none before Restore, Read or Set.
func New(o Options) *Overrides {
	return &Overrides{
		o: o, wake: signal.New(),
		unsaved: &unsaved{using: make(chan struct{}, 1), set: map[string][]byte{}},
	}
}

// All returns the overrides by site.
func (v *Overrides) All() map[string]Override {
	if known := v.now.Load(); known != nil {
		return *known
	}
	return nil
}

// Changed lets Run read the documents again soon.
func (v *Overrides) Changed() { v.wake.Send() }

// Set gives a site other limits than its rule says, until Clear. The body is JSON, as
// in the configuration: {"limits": [{"requests": 10, "per": "1s"}]}.
func (v *Overrides) Set(ctx context.Context, site string, body []byte) error {
	if err := v.mayOverride(site); err != nil {
		return err
	}
	limits, err := policy.ParseLimits(body)
	if err != nil {
		return err
	}
	if rule := v.o.Plans.Policy().RuleOf(site); slices.ContainsFunc(limits, func(l policy.Limit) bool { return l.By == "token" }) && (rule == nil || rule.Pool == "") {
		return errNoTokens
	}
	if err := v.change(site, func(o *Override) { o.Limits = limits }); err != nil {
		return err
	}
	v.o.Log.WithField("site", site).Infof("the limits of %s were set by the operator: %s", site, titlesOf(limits))
	return status.Kept(v.save(ctx, site))
}

// mayOverride returns why a site can have no override.
func (v *Overrides) mayOverride(site string) error {
	known := v.All()
	if !canBe(v.o.Plans.Policy(), site) {
		return errNoSuchSite
	}
	if _, set := known[site]; !set && len(known) >= mostSites {
		return errManySites
	}
	return nil
}

// Clear gives a site the limits of its rule again. It is false if it had them.
func (v *Overrides) Clear(ctx context.Context, site string) (bool, error) {
	return v.remove(ctx, site, v.All()[site].Limits != nil, func(o *Override) { o.Limits = nil }, "the limits of %s are those of the configuration again")
}

// remove removes a part of a site's override, if it is there, and logs the sentence.
func (v *Overrides) remove(ctx context.Context, site string, there bool, part func(o *Override), sentence string) (bool, error) {
	if !there {
		return false, nil
	}
	if err := v.change(site, part); err != nil {
		return true, err
	}
	v.o.Log.WithField("site", site).Infof(sentence, site)
	return true, status.Kept(v.save(ctx, site))
}

// change changes the override of a site in this process.
func (v *Overrides) change(site string, set func(o *Override)) error {
	v.o.Plans.Lock()
	defer v.o.Plans.Unlock()
	next := maps.Clone(v.All())
	if next == nil {
		next = bySite{}
	}
	was := next[site]
	override := was
	set(&override)
	// Limits that were set before stay, also where a new configuration has no room for them.
	if override.Limits != nil && !same(Override{Limits: was.Limits}, Override{Limits: override.Limits}) {
		if err := v.o.Plans.Fits(site, override.Limits); err != nil {
			return fmt.Errorf("the limits of %s: %w", site, err)
		}
	}
	if override.isEmpty() {
		delete(next, site)
	} else {
		next[site] = override
	}
	if v.o.Documents != nil {
		text, err := format(override)
		if err != nil {
			return err
		}
		v.unsaved.put(site, text)
	}
	v.now.Store(&next)
	v.o.Plans.Apply()
	return nil
}

// save writes the override of a site. Without documents it lasts as long as the process; a
// write that fails is tried again.
func (v *Overrides) save(ctx context.Context, site string) error {
	if v.o.Documents == nil {
		return nil
	}
	if err := v.saveAll(ctx); err != nil && v.unsaved.has(site) {
		v.Changed()
		return err
	}
	return nil
}

func (v *Overrides) saveAll(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return v.unsaved.write(within, v.o.Documents)
}

// Restore reads the overrides from before a restart, before anything is applied.
func (v *Overrides) Restore(ctx context.Context) error { return v.read(ctx, func() {}) }

// Read reads the overrides of other instances, or from before a restart, and applies them.
func (v *Overrides) Read(ctx context.Context) error { return v.read(ctx, v.o.Plans.Apply) }

// read reads the documents, and puts the unsaved ones in their place. It calls apply if there are changes.
func (v *Overrides) read(ctx context.Context, apply func()) error {
	within, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := v.unsaved.use(within); err != nil {
		return err
	}
	defer v.unsaved.leave()
	texts, err := v.o.Documents.All(within, kindOfLimits)
	if err != nil {
		return err
	}
	v.o.Plans.Lock()
	defer v.o.Plans.Unlock()
	v.unsaved.over(texts)
	all := bySite{}
	for site, text := range texts {
		override, err := parse(text)
		if err != nil {
			v.o.Log.WithFields(logrus.Fields{"site": site, "reason": err}).Warnf("what was set for %s at run time is not understood, so the configuration holds: %v", site, err)
			continue
		}
		all[site] = override
	}
	if maps.EqualFunc(all, v.All(), same) {
		v.now.Store(&all)
		return nil
	}
	v.log(all)
	v.now.Store(&all)
	apply()
	return nil
}

// log logs the differences to the present overrides.
func (v *Overrides) log(all bySite) {
	for site, one := range all {
		old := v.All()[site]
		if one.Limits != nil && !same(Override{Limits: old.Limits}, Override{Limits: one.Limits}) {
			v.o.Log.WithField("site", site).Infof("the limits of %s are those that were set at run time: %s", site, titlesOf(one.Limits))
		}
		if one.Pause != nil && !one.Pause.Over(time.Now()) && !same(Override{Pause: old.Pause}, Override{Pause: one.Pause}) {
			v.o.Log.WithFields(logrus.Fields{"site": site, "reason": one.Pause.Reason}).Warnf("%s is %s", site, one.Pause.Title())
		}
	}
	for site, old := range v.All() {
		if old.Pause != nil && all[site].Pause == nil {
			v.o.Log.WithField("site", site).Infof("%s is paused no longer", site)
		}
	}
}

// Run reads the documents again whenever other instances may have changed them, and after
// a while in any case, until ctx is done. It tries again to write unsaved documents.
func (v *Overrides) Run(ctx context.Context) {
	if v.o.Documents == nil {
		return
	}
	unread := !v.o.Shared && v.now.Load() == nil // the file could not be read at the start
	for {
		wait := readEvery
		v.endPauses(ctx, time.Now())
		if err := v.saveAll(ctx); err != nil {
			wait = Patience
		}
		read := unread && v.Read(ctx) == nil
		if unread = unread && !read; unread {
			wait = Patience
		}
		if read || v.o.Together() {
			if err := v.Read(ctx); err != nil && ctx.Err() == nil {
				v.o.Log.WithField("reason", err).Warnf("the limits that were set at run time cannot be read: %v", err)
			}
			v.o.Others(ctx)
		}
		select {
		case <-ctx.Done():
			_ = v.saveAll(context.WithoutCancel(ctx)) // the operator was told that they are not written
			return
		case <-v.wake:
		case <-time.After(wait):
		}
	}
}

// canBe tells whether requests can have a name as their site: that of a rule which makes
// one site of all its hosts, or else a host as requests name it.
func canBe(p *policy.Policy, site string) bool {
	if slices.ContainsFunc(p.Sites, func(s policy.Site) bool { return s.Group == "rule" && s.Title() == site }) {
		return true
	}
	if strings.ContainsAny(site, "*{}%") {
		return false
	}
	for _, host := range []string{site, "[" + site + "]"} {
		for _, scheme := range []string{"https", "http"} {
			if t, err := policy.ParseTarget(scheme, host); err == nil && p.Match(t).Site == site {
				return true
			}
		}
	}
	return false
}

func titlesOf(limits []policy.Limit) string {
	return cmp.Or(strings.Join(lists.Map(limits, func(l policy.Limit) string { return l.Title() }), ", "), "none")
}
