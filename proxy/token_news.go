package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/abide-proxy/abide/tokens"
)

// putToken keeps what is known of a token for other instances; a nil value removes it.
func (s *Server) putToken(ctx context.Context, kind string, pool *tokens.Pool, token string, value any, until time.Time) bool {
	var text []byte
	if value != nil {
		var err error
		if text, err = json.Marshal(value); err != nil {
			return false
		}
	}
	within, cancel := context.WithTimeout(ctx, patienceOfStore)
	defer cancel()
	return s.shelf.Put(within, kind, pool.Name()+between+token, text, until) == nil
}

// tellSwitches tells which tokens the operator has disabled or enabled in this process. It
// does so without other instances, too: the next one must not read what was said before.
func (s *Server) tellSwitches(ctx context.Context, pool *tokens.Pool) bool {
	if s.shelf == nil {
		return true
	}
	well, until := true, time.Now().Add(switchKept)
	for _, one := range pool.Switches() {
		well = s.putToken(ctx, kindOfSwitch, pool, one.Token, one, until) && well
		if one.Disabled == "" {
			well = s.putToken(ctx, kindOfQuarantine, pool, one.Token, nil, time.Time{}) && well
		}
	}
	return well
}

// switchKept is for how long what the operator said of a token is told of.
const switchKept = 365 * 24 * time.Hour

// tellTokens tells of tokens that a server does not accept, and of those that the operator
// has disabled or enabled.
func (s *Server) tellTokens(ctx context.Context, versions map[string]uint64) {
	for name, pool := range s.state.Load().pools {
		v := pool.Version()
		if v == versions[name] {
			continue
		}
		now, well := time.Now(), s.tellSwitches(ctx, pool)
		for _, m := range pool.State(now) {
			if !m.Quarantined.After(now) {
				continue
			}
			well = s.putToken(ctx, kindOfQuarantine, pool, m.Token, m, m.Quarantined) && well
		}
		if well {
			versions[name] = v
		}
	}
}

// hearTokens reads what other instances have kept of tokens, of one kind.
func hearTokens[T any](ctx context.Context, s *Server, kind string, hear func(pool *tokens.Pool, said T)) error {
	if s.desk == nil || !s.desk.together() {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, patienceOfShelf)
	defer cancel()
	all, err := s.shelf.All(within, kind)
	if err != nil {
		return err
	}
	for key, text := range all {
		name, _, _ := strings.Cut(key, between)
		pool := s.state.Load().pools[name]
		var said T
		if pool != nil && json.Unmarshal(text, &said) == nil {
			hear(pool, said)
		}
	}
	return nil
}

// hearQuarantines takes over what other instances have met.
func (s *Server) hearQuarantines(ctx context.Context) error {
	return hearTokens(ctx, s, kindOfQuarantine, func(pool *tokens.Pool, m tokens.Memory) {
		if t := pool.Hear(time.Now(), m); t != nil {
			s.log.Warnf("the token %s of %s is put away until %s: another instance was told that it is not accepted", t.Label(), pool.Name(), m.Quarantined.Format(time.RFC3339))
			s.gate.CoolAll(scopeOfToken(t), m.Quarantined, "quarantine")
		}
	})
}

// hearSwitches takes over which tokens the operator has disabled or enabled in other
// instances.
func (s *Server) hearSwitches(ctx context.Context) error {
	return hearTokens(ctx, s, kindOfSwitch, func(pool *tokens.Pool, o tokens.Switch) {
		t, later := pool.Obey(time.Now(), o)
		if later != nil { // two wrote at once, and the wrong one was the last
			s.putToken(ctx, kindOfSwitch, pool, later.Token, later, time.Now().Add(switchKept))
		}
		if t != nil {
			done := "disabled"
			if o.Disabled == "" {
				done = "enabled"
			}
			s.log.Warnf("the token %s of %s is %s: the operator told another instance so", t.Label(), pool.Name(), done)
			s.switched(t, o.Disabled == "")
		}
	})
}
