package overrides

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/status"
)

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
	if len(p.Reason) > status.MaxPauseReason || !utf8.ValidString(p.Reason) || !oneLine(p.Reason) {
		return errPauseReason
	}
	if !p.Until.IsZero() && (p.Over(p.Since) || p.Until.Sub(p.Since) > longestPause) {
		return errPauseTime
	}
	if err := v.change(site, func(o *Override) { o.Pause = &p }); err != nil {
		return err
	}
	v.o.Log.WithFields(logrus.Fields{"site": site, "reason": p.Reason}).Warnf("%s is %s", site, p.Title())
	return notKept(v.save(ctx, site))
}

func oneLine(s string) bool {
	for _, c := range s {
		if status.Printable(c) != c {
			return false
		}
	}
	return true
}

// Resume ends the pause of a site. It is false if the site is not paused.
func (v *Overrides) Resume(ctx context.Context, site string) (bool, error) {
	if v.All()[site].Pause == nil {
		return false, nil
	}
	if err := v.change(site, func(o *Override) { o.Pause = nil }); err != nil {
		return true, notKept(err)
	}
	v.o.Log.WithField("site", site).Infof("%s is resumed by the operator", site)
	return true, notKept(v.save(ctx, site))
}

// endPauses removes the pauses whose time is over. Requests have gone since then.
func (v *Overrides) endPauses(ctx context.Context, now time.Time) {
	for site, one := range v.All() {
		if one.Pause == nil || !one.Pause.Over(now) {
			continue
		}
		ended := one.Pause
		err := v.change(site, func(o *Override) {
			if samePause(o.Pause, ended) {
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

func samePause(a, b *status.Pause) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Reason == b.Reason && a.Since.Equal(b.Since) && a.Until.Equal(b.Until)
}
