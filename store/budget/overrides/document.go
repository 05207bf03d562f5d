package overrides

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// document is the saved override of a site: {"limits": […], "pause": {…}}. Older releases
// know the limits alone.
type document struct {
	Limits json.RawMessage `json:"limits,omitempty"`
	Pause  *status.Pause   `json:"pause,omitempty"`
}

// format makes the document of an override; nil: there is none.
func format(o Override) ([]byte, error) {
	if o.isEmpty() {
		return nil, nil
	}
	var d document
	if o.Limits != nil {
		text, err := policy.FormatLimits(o.Limits)
		if err != nil || o.Pause == nil {
			return text, err
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, err
		}
	}
	d.Pause = o.Pause
	return json.Marshal(d)
}

// parse reads a document.
func parse(text []byte) (o Override, err error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return o, err
	}
	if d.Limits != nil {
		d.Limits, err = json.Marshal(map[string]json.RawMessage{"limits": d.Limits})
		if err != nil {
			return o, err
		}
		if o.Limits, err = policy.ParseLimits(d.Limits); err != nil {
			return o, err
		}
	}
	if o.Pause = d.Pause; o.isEmpty() {
		return o, errors.New("it has neither limits nor a pause")
	}
	return o, nil
}

// same tells whether two overrides have one document.
func same(a, b Override) bool {
	text, err := format(a)
	other, err2 := format(b)
	return err == nil && err2 == nil && bytes.Equal(text, other)
}

// kindOfLimits is the kind of the documents. Stores have it.
const kindOfLimits = "limits"

// unsaved are the documents that are to be written.
type unsaved struct {
	using chan struct{} // has room for the one that writes or reads the saved documents
	mu    sync.Mutex
	set   map[string][]byte // :: site → the document; nil: it is to be removed
}

func (u *unsaved) put(site string, text []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set[site] = text
}

func (u *unsaved) has(site string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.set[site]
	return ok
}

// over puts the unsaved documents in the place of saved ones.
func (u *unsaved) over(saved map[string][]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for site, text := range u.set {
		if text == nil {
			delete(saved, site)
		} else {
			saved[site] = text
		}
	}
}

// use waits until nobody else reads or writes the saved documents: none becomes saved, and so ceases to be unsaved,
// before leave.
func (u *unsaved) use(ctx context.Context) error {
	select {
	case u.using <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *unsaved) leave() { <-u.using }

// write writes all documents. A document that is set meanwhile is left to the caller that has
// set it.
func (u *unsaved) write(ctx context.Context, to store.Documents) error {
	if err := u.use(ctx); err != nil {
		return err
	}
	defer u.leave()
	u.mu.Lock()
	set := maps.Clone(u.set)
	u.mu.Unlock()
	for site, text := range set {
		if err := to.Put(ctx, kindOfLimits, site, text, time.Time{}); err != nil {
			return err
		}
		u.mu.Lock()
		if bytes.Equal(u.set[site], text) && (u.set[site] == nil) == (text == nil) {
			delete(u.set, site)
		}
		u.mu.Unlock()
	}
	return nil
}

// longestPause bounds a pause that ends by itself.
const longestPause = 366 * 24 * time.Hour

var (
	errPauseReason = errors.New("the reason of a pause is a text of one line and at most 200 bytes")
	errPauseTime   = errors.New("a pause ends in the future, and within a year")
)

// Pause lets no request go to a site until Resume, or until a time; the zero time is for ever. A
// pause takes the place of an earlier one.
func (v *Overrides) Pause(ctx context.Context, site string, p status.Pause) error {
	if err := v.mayOverride(site); err != nil {
		return err
	}
	if len(p.Reason) > status.MaxPauseReason || status.Line(p.Reason) != p.Reason {
		return errPauseReason
	}
	if !p.Until.IsZero() && (p.Over(p.Since) || p.Until.Sub(p.Since) > longestPause) {
		return errPauseTime
	}
	if err := v.change(site, func(o *Override) { o.Pause = &p }); err != nil {
		return err
	}
	v.o.Log.WithFields(logrus.Fields{"site": site, "reason": p.Reason}).Warnf("%s is %s", site, p.Title())
	return status.Kept(v.save(ctx, site))
}

// Resume ends the pause of a site. It is false if the site is not paused.
func (v *Overrides) Resume(ctx context.Context, site string) (bool, error) {
	return v.remove(ctx, site, v.All()[site].Pause != nil, func(o *Override) { o.Pause = nil }, "%s is resumed by the operator")
}

// endPauses removes the pauses whose time is over. Requests have gone since then.
func (v *Overrides) endPauses(ctx context.Context, now time.Time) {
	for site, one := range v.All() {
		if one.Pause == nil || !one.Pause.Over(now) {
			continue
		}
		ended := one.Pause
		err := v.change(site, func(o *Override) {
			if same(Override{Pause: o.Pause}, Override{Pause: ended}) {
				o.Pause = nil
			}
		})
		if err == nil {
			err = v.save(ctx, site)
		}
		if err != nil {
			v.o.Log.WithFields(logrus.Fields{"site": site, "reason": err}).Warnf("the pause of %s has ended, and is not removed yet: %v", site, err)
		}
	}
}
