package main

import (
	"context"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
)

// tokenWatches watch the files and directories that tokens come from, so that a new token is
// used without a restart.
type tokenWatches struct {
	ctx     context.Context
	log     *logrus.Logger
	changed chan struct{}
	running map[string]context.CancelFunc // :: path → end of its watch
	ends    sync.WaitGroup
}

func newTokenWatches(ctx context.Context, log *logrus.Logger) *tokenWatches {
	return &tokenWatches{ctx: ctx, log: log, changed: make(chan struct{}, 1), running: map[string]context.CancelFunc{}}
}

// follow watches the files that a policy names, and stops watching others.
func (t *tokenWatches) follow(p *policy.Policy) {
	named := map[string]bool{}
	for i := range p.Pools {
		for _, path := range []string{p.Pools[i].File, p.Pools[i].Dir} {
			if path != "" {
				named[path] = true
			}
		}
	}
	for path, end := range t.running {
		if !named[path] {
			end()
			delete(t.running, path)
		}
	}
	for path := range named {
		if t.running[path] == nil {
			t.watch(path)
		}
	}
}

func (t *tokenWatches) watch(path string) {
	ctx, end := context.WithCancel(t.ctx)
	t.running[path] = end
	w, err := newWatch(path)
	if err != nil {
		t.log.Warnf("%s is not watched for changes (%v); SIGHUP and POST /api/v1/reload still have it read again", path, err)
		return
	}
	t.ends.Go(func() {
		w.run(ctx, quietTime, func() {
			select {
			case t.changed <- struct{}{}:
			default: // a reload is pending already, and will see this change
			}
		})
	})
}

// close ends all watches.
func (t *tokenWatches) close() {
	for _, end := range t.running {
		end()
	}
	t.ends.Wait()
}
