package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Names that exist only here; each peer learns in its own way where they lead.
const (
	siteHost  = "api.test"
	bulkHost  = "bulk.test"    // a tunnel to it ends at the origin's cleartext port
	freshHost = "n%d.new.test" // hosts seen for the first time
	busyHost  = "busy.test"    // one whose requests wait
)

// bed is what every measurement stands on: the origin, the generator, and the
// certificates of this run. It is for one goroutine.
type bed struct {
	dir       string // temporary, removed by close
	cores     cores
	originCA  *authority
	goproxyCA *authority
	origin    *child
	at        originAddress
	load      *child
	abide     string // the binary
	fresh     int    // how many fresh names a peer must know
}

// newBed starts origin and generator on the cores that the proxies leave them.
func newBed(ctx context.Context, c cores) (*bed, error) {
	b := &bed{cores: c}
	var err error
	if b.dir, err = os.MkdirTemp("", "abide-bench-"); err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	if err := b.start(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) start(ctx context.Context) error {
	// squid reads its files as a user of its own.
	err := os.Chmod(b.dir, 0o755)
	if err != nil {
		return err
	}
	if b.originCA, err = newAuthority(b.dir, "origin-ca"); err != nil {
		return err
	}
	if b.goproxyCA, err = newAuthority(b.dir, "goproxy-ca"); err != nil {
		return err
	}
	leaf, err := b.originCA.issue(b.dir, "origin", siteHost, "*.new.test", "127.0.0.1")
	if err != nil {
		return err
	}
	b.origin, err = startChild(ctx, "origin", b.cores.rest, originOrders{leaf.CertFile, leaf.KeyFile}, &b.at)
	if err != nil {
		return err
	}
	b.load, err = startChild(ctx, "load", b.cores.rest, nil, nil)
	return err
}

// close ends what start started and removes what it wrote.
func (b *bed) close() {
	for _, c := range []*child{b.load, b.origin} {
		if c != nil {
			c.Stop()
		}
	}
	_ = os.RemoveAll(b.dir)
}

// counts asks the origin what has arrived.
func (b *bed) counts(release bool) (counts, error) {
	var c counts
	err := b.origin.ask(originQuestion{Release: release}, &c, 10*time.Second)
	return c, err
}

// do lets the generator work and turns what went wrong there into an error.
func (b *bed) do(j job) (outcome, error) {
	var out outcome
	if err := b.load.ask(j, &out, j.For+3*time.Minute); err != nil {
		return out, err
	}
	if out.Fault != "" {
		return out, fmt.Errorf("after %d requests: %s", out.Requests, out.Fault)
	}
	return out, nil
}
