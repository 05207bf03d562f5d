package budget

import (
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// outages are the rules for when a store is away, by their words in the configuration.
var outages = map[string]lease.Outage{"share": lease.Share, "strict": lease.Strict, "open": lease.Open}

// OutageOf returns the configured outage rule of a site.
func OutageOf(rule *policy.Site) lease.Outage {
	if rule == nil {
		return lease.Share
	}
	return outages[rule.Outage]
}

// Meters makes the meters of a limit persistent or shared: see queue.Limit. It is nil for a
// limit that is neither.
func (k *Keeper) Meters(rule *policy.Site, l *policy.Limit, spec *limit.Spec) queue.MeterSource {
	switch {
	case k == nil, !spec.Traits().Windowed:
		return nil // counts requests in flight only, or is learned again
	case k.shared && !spec.Shareable():
		return nil
	}
	return meterSource{k, outages[rule.OutageOf(l)]}
}

// meterSource makes the meters of a limit under an outage rule.
type meterSource struct {
	keeper *Keeper
	outage lease.Outage
}

func (meterSource) NewMeter() limit.Meter { return nil } // the limit has a Spec

func (s meterSource) External(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	k := s.keeper
	switch {
	case !k.names.Lasting(at.Key):
		return nil
	case k.shared:
		return k.Account(site).Shared(k.key(site, at), spec, s.outage)
	}
	return k.durable(site, at, spec, m)
}

// durable makes a meter that outlives the process: it continues from the store's state, or
// from the state of limits that its limit replaces.
func (k *Keeper) durable(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	now, key := time.Now(), k.key(site, at)
	was, known := k.restored.take(site, key)
	carried := !m.Idle(now) // it has the takes of a replaced limit
	if !carried {
		if list := k.restored.spentBefore(site, key, was.At, k.sites.HasLimit); len(list) > 0 {
			if meter, err := limit.Carry(now, list, spec); err == nil {
				m, carried = meter, true
			}
		}
	}
	if known && !carried {
		if err := lease.Restore(now, spec, m, was.State, was.Ahead); err != nil {
			k.log.WithFields(logrus.Fields{"site": site, "limit": at.Limit, "reason": err}).Warnf("what %s had used of %q before the restart is not understood: %v", site, at.Limit, err)
		}
		k.restored.setLeft(site, at, m.Left(now))
	}
	kept := k.Account(site).Joint(key, spec, m, was.From)
	if carried || known && !m.Idle(now) { // the stored state is of another limit, or of another clock
		kept.(interface{ Lost(now time.Time) }).Lost(now)
	}
	return kept
}

// Names translates keys of the queue's slots to names that are the same in every process.
type Names interface {
	// Stable returns the name of a slot's key at a site.
	Stable(site, key string) string
	// Local lists the keys of a name in this process, for the slots of a limit. There are
	// none for a token that this process does not have.
	Local(site, limit, name string) []string
	// Lasting tells whether a key has a meaning in other processes.
	Lasting(key string) bool
}

// trickleSuffix ends the names and units of trickle limits: see package bandwidth.
const trickleSuffix = " trickle"

// NameOf returns the name of a configured limit without its amounts: with another amount after a
// reload it is the same limit, and used units stay used. Stores have these names, and
// subjectIn parses them.
func NameOf(l *policy.Limit) string {
	return fmt.Sprintf("%s %s per %s %s by %s for %s %s", l.As, l.Unit, l.Per, l.Timezone, l.By, l.Method, l.Path)
}

// subjectIn parses a limit's name for what the limit counts, and its kind: see NameOf.
func subjectIn(name string) (queue.Subject, limit.As) {
	name, trickle := strings.CutSuffix(name, trickleSuffix)
	part := strings.SplitN(name, " ", 10)
	if len(part) < 10 || part[2] != "per" || part[5] != "by" || part[7] != "for" || part[1] == "concurrency" {
		return queue.Subject{}, ""
	}
	path, at, _ := strings.Cut(part[9], " at ")
	path, _, _ = strings.Cut(path, " ")
	s := queue.Subject{Unit: part[1], By: part[6], At: at, Method: part[8], Path: path}
	if trickle {
		s.Unit += trickleSuffix
	}
	return s, limit.As(part[0])
}
