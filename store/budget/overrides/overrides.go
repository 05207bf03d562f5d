// Package overrides keeps what the operator sets for sites at run time, which is limits and
// pauses: over restarts, and with a shared store in every instance.
package overrides

import (
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

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// Patience is how long a document may take to be read or written.
	Patience = 5 * time.Second
	// readEvery is how often documents are read that nobody has said have changed.
	readEvery = time.Minute
	// mostSites is how many sites may have limits of their own at once.
	mostSites = 10_000
)

// errNoSuchSite is for a name that no request can have as its site.
var errNoSuchSite error = status.Missing("a site is a host, host:port, domain or rule's name, in lower case")

var (
	errManySites = errors.New("as many sites have limits or pauses that were set at run time as there may be; remove some first")
	errNoTokens  = errors.New("limits by token need a rule with a pool for the site")
)

// Overrides are what was set at run time. They are safe for concurrent use.
type Overrides struct {
	o       Options
	unsaved *unsaved // what was set and is not written yet
	wake    signal.Signal
	now     atomic.Pointer[bySite]
}

// Options are what Overrides are made of. All but Documents are needed.
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

// Plans is where limits come to hold.
type Plans interface {
	sync.Locker // is held while the limits change
	Policy() *policy.Policy
	// Fits answers why a site cannot have limits. The lock is held.
	Fits(site string, limits []policy.Limit) error
	// Apply makes the limits hold that All answers. The lock is held.
	Apply() error
}

// Override is what the operator has set for a site.
type Override struct {
	Limits []policy.Limit // nil: those of its rule
	Pause  *status.Pause  // nil: it is not paused
}

func (o Override) isEmpty() bool { return o.Limits == nil && o.Pause == nil }

type bySite = map[string]Override

// New makes Overrides. There are none before Restore, Read or Set.
func New(o Options) *Overrides {
	return &Overrides{o: o, unsaved: newUnsaved(), wake: signal.New()}
}

// All is what was set, by site.
func (v *Overrides) All() map[string]Override {
	if known := v.now.Load(); known != nil {
		return *known
	}
	return nil
}

// Changed has the documents read again soon.
func (v *Overrides) Changed() { v.wake.Send() }

// Set has a site keep other limits than its rule says, until Clear. The body is JSON, as
// in the configuration: {"limits": [{"requests": 10, "per": "1s"}]}.
func (v *Overrides) Set(ctx context.Context, site string, body []byte) error {
	p, all := v.o.Plans.Policy(), v.All()
	if !canBe(p, site) {
		return errNoSuchSite
	}
	if _, set := all[site]; !set && len(all) >= mostSites {
		return errManySites
	}
	limits, err := policy.ParseLimits(body)
	if err != nil {
		return err
	}
	if rule := p.RuleOf(site); slices.ContainsFunc(limits, func(l policy.Limit) bool { return l.By == "token" }) && (rule == nil || rule.Pool == "") {
		return errNoTokens
	}
	if limits == nil {
		limits = []policy.Limit{}
	}
	if err := v.change(site, func(o *Override) { o.Limits = limits }); err != nil {
		return err
	}
	v.o.Log.Infof("the limits of %s were set by the operator: %s", site, titlesOf(limits))
	return notKept(v.save(ctx, site))
}

// notKept says of an error that the limits hold in this process all the same.
func notKept(err error) error {
	if err != nil {
		return status.NotKept{Err: err}
	}
	return nil
}

// Clear gives a site the limits of its rule again. It is false if it had them.
func (v *Overrides) Clear(ctx context.Context, site string) (bool, error) {
	if v.All()[site].Limits == nil {
		return false, nil
	}
	if err := v.change(site, func(o *Override) { o.Limits = nil }); err != nil {
		return true, notKept(err)
	}
	v.o.Log.Infof("the limits of %s are those of the configuration again", site)
	return true, notKept(v.save(ctx, site))
}

// change changes what is set for a site in this process.
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
	if override.Limits != nil && (was.Limits == nil || !sameLimits(was.Limits, override.Limits)) {
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
	return v.o.Plans.Apply()
}

// save writes what was set for a site. Without documents it lasts as long as the process;
// what cannot be written now is tried again.
func (v *Overrides) save(ctx context.Context, site string) error {
	if v.o.Documents == nil {
		return nil
	}
	if err := v.saveAll(ctx); err != nil && v.unsaved.has(site) {
		v.Changed()
		return fmt.Errorf("it holds in this process, and is not kept yet: %w", err)
	}
	return nil
}

func (v *Overrides) saveAll(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return v.unsaved.write(within, v.o.Documents)
}

// Restore reads what was set before a restart, before anything is applied.
func (v *Overrides) Restore(ctx context.Context) error {
	all, err := v.read(ctx)
	if err == nil {
		v.log(all)
		v.now.Store(&all)
	}
	return err
}

// Read reads what was set by other instances, or before a restart, and makes it hold.
func (v *Overrides) Read(ctx context.Context) error {
	for {
		set := v.unsaved.changes()
		all, err := v.read(ctx)
		if err != nil {
			return err
		}
		if done, err := v.take(set, all); done || err != nil {
			return err
		}
	}
}

// take makes the limits hold that were read, unless others were set meanwhile.
func (v *Overrides) take(set uint64, all bySite) (done bool, err error) {
	v.o.Plans.Lock()
	defer v.o.Plans.Unlock()
	if set != v.unsaved.changes() {
		return false, nil
	}
	if maps.EqualFunc(all, v.All(), same) {
		return true, nil
	}
	v.log(all)
	v.now.Store(&all)
	return true, v.o.Plans.Apply()
}

// read reads the documents, with what is to be written in their place.
func (v *Overrides) read(ctx context.Context) (bySite, error) {
	within, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	texts, err := v.o.Documents.All(within, kindOfLimits)
	if err != nil {
		return nil, err
	}
	v.unsaved.over(texts)
	all := bySite{}
	for site, text := range texts {
		override, err := parse(text)
		if err != nil {
			v.o.Log.Warnf("what was set for %s at run time is not understood, so the configuration holds: %v", site, err)
			continue
		}
		all[site] = override
	}
	return all, nil
}

// log logs what is other than now.
func (v *Overrides) log(all bySite) {
	for site, one := range all {
		old := v.All()[site]
		if one.Limits != nil && (old.Limits == nil || !sameLimits(old.Limits, one.Limits)) {
			v.o.Log.Infof("the limits of %s are those that were set at run time: %s", site, titlesOf(one.Limits))
		}
		if one.Pause != nil && !samePause(old.Pause, one.Pause) {
			v.o.Log.Warnf("%s is %s", site, one.Pause.Title())
		}
	}
	for site, old := range v.All() {
		if old.Pause != nil && all[site].Pause == nil {
			v.o.Log.Infof("%s is paused no longer", site)
		}
	}
}

// Run reads the documents again whenever other instances may have changed them, and after
// a while in any case, until ctx is done. What could not be written is tried again.
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
				v.o.Log.Warnf("the limits that were set at run time cannot be read: %v", err)
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
	for i := range p.Sites {
		if p.Sites[i].Group == "rule" && p.Sites[i].Title() == site {
			return true
		}
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
	if len(limits) == 0 {
		return "none"
	}
	titles := make([]string, len(limits))
	for i := range limits {
		titles[i] = limits[i].Title()
	}
	return strings.Join(titles, ", ")
}

func sameLimits(a, b []policy.Limit) bool {
	one, err := policy.FormatLimits(a)
	if err != nil {
		return false
	}
	other, err := policy.FormatLimits(b)
	return err == nil && string(one) == string(other)
}
