package backfill

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
)

// memory is an output of one job in memory, with what a test lets go wrong.
type memory struct {
	mu      sync.Mutex
	units   []*kept
	records map[string]output.Record
	lease   int64
	away    bool            // nothing can be written
	lost    map[string]bool // units whose claims are lost
	late    int             // how many commits take too long
}

// kept is a unit.
type kept struct {
	output.Claim
	state  output.State
	from   time.Time
	reason string
}

func newMemory() *memory {
	return &memory{records: map[string]output.Record{}, lost: map[string]bool{}}
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *memory) find(c *output.Claim) (*kept, error) {
	if m.away {
		return nil, output.ErrAway
	}
	i := slices.IndexFunc(m.units, func(k *kept) bool { return k.Key == c.Key })
	if k := m.units[i]; k.state == output.Running && k.Lease == c.Lease && !m.lost[c.Key] {
		return k, nil
	}
	return nil, output.ErrLost
}

// AddUnits adds units, and has those wait again that failed, or are done and fetched again.
func (m *memory) AddUnits(_ context.Context, units iter.Seq2[output.Unit, error], _ bool) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for u, err := range units {
		if err != nil {
			return 0, err
		}
		i := slices.IndexFunc(m.units, func(k *kept) bool { return k.Key == u.Key })
		if i < 0 {
			m.units = append(m.units, &kept{Claim: output.Claim{Unit: u}, state: output.Waiting})
			continue
		}
		switch k := m.units[i]; {
		case k.state == output.Done && u.Again:
			k.state, k.Pages, n = output.Waiting, 0, n+1
		case k.state == output.Failed:
			k.state, k.Tries, n = output.Waiting, 0, n+1
		}
	}
	return n, nil
}

func (m *memory) Claim(context.Context) (*output.Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, output.ErrAway
	}
	for _, k := range m.units {
		if k.state == output.Waiting && !time.Now().Before(k.from) {
			m.lease++
			k.state, k.Lease = output.Running, m.lease
			c := k.Claim
			return &c, nil
		}
	}
	return nil, nil
}

func (m *memory) Renew(_ context.Context, c *output.Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost[c.Key] {
		return output.ErrLost
	}
	return nil
}

func (m *memory) Commit(_ context.Context, c *output.Claim, p output.Page) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(c)
	if m.late > 0 {
		m.late--
		err = context.DeadlineExceeded
	}
	if err != nil {
		return err
	}
	for _, r := range p.Records {
		m.records[r.ID] = r
	}
	k.Checkpoint, k.Tries = p.Checkpoint, 0
	k.Pages = c.Pages + 1
	if p.Ends != "" {
		k.state, k.reason = p.Ends, p.Reason
	}
	c.Checkpoint, c.Pages, c.Tries = k.Checkpoint, k.Pages, 0
	return nil
}

func (m *memory) End(_ context.Context, c *output.Claim, s output.State, from time.Time, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(c)
	if err == nil {
		k.state, k.from, k.reason, k.Pages = s, from, reason, c.Pages
		k.Tries += min(len(reason), 1)
	}
	return err
}

func (m *memory) Counts(context.Context) (output.Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var c output.Counts
	c.Records, c.Units.Total = int64(len(m.records)), int64(len(m.units))
	u := &c.Units
	into := map[output.State]*int64{output.Waiting: &u.Waiting, output.Running: &u.Running, output.Done: &u.Done, output.Failed: &u.Failed, output.Incomplete: &u.Incomplete, output.NotOver: &u.Open}
	for _, k := range m.units {
		*into[k.state]++
		if c.Pages += k.Pages; k.state == output.Waiting && k.from.After(time.Now()) && (c.Earlier.IsZero() || k.from.Before(c.Earlier)) {
			c.Earlier = k.from
		}
	}
	return c, nil
}
