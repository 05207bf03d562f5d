package chaos

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// abide is one instance, which may be killed and started again.
type abide struct {
	world   *world
	index   int
	name    string
	life    atomic.Int64
	stopped atomic.Bool
	server  *proxy.Server
	front   *listener
	link    *link
	file    *store.File
	stop    func() // ends the instance as a signal does
	done    chan struct{}
	ended   []chan struct{} // of the lives before
}

// reach connects a client.
func (a *abide) reach(ctx context.Context, tls bool) (net.Conn, error) {
	return a.world.net.dial(ctx, netip.MustParseAddr("127.0.0.2"), a.name, roomOf(tls))
}

func roomOf(tls bool) int {
	if tls {
		return unlimited
	}
	return buffer
}

// start begins a life of the abide.
func (a *abide) start() {
	w := a.world
	life := a.life.Add(1)
	self := netip.AddrFrom4([4]byte{10, 1, byte(a.index), byte(life)})
	instance := fmt.Sprintf("i%dx%d", a.index, life)
	keeping := dispatch.Keeping{Instance: instance, Name: instance}
	a.link, a.file = nil, nil
	switch w.storage {
	case "file":
		file, err := store.OpenFile(context.Background(), w.file, store.FileOptions{Instance: instance, Name: instance, Most: sites.MostKept()})
		w.check(err)
		keeping.Store, keeping.Documents, keeping.Memory = file, file, file
		keeping.Budgets, err = file.Recall(context.Background())
		w.check(err)
		a.file = file
	case "disk":
		a.link = &link{Store: w.fleet, net: w.net}
		disk := disk{a.link, len(w.abides)}
		keeping.Store, keeping.Documents = disk, disk
	case "fleet":
		a.link = &link{Store: w.fleet, net: w.net}
		keeping.Store, keeping.Documents, keeping.Shared = a.link, a.link, true
	}
	log := logrus.New()
	log.SetOutput(&w.log)
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true})
	log.AddHook(stamp{w, a.name})
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(w.roots.PEM())
	link := a.link
	server, err := proxy.New(dispatch.Options{
		Policy: w.policy(0), Metrics: metrics.New(100), Log: log, Keeping: keeping,
		Upstream: func(t *upstream.Transport) http.RoundTripper {
			t.TLS.RootCAs = trusted
			t.Dial = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				if a.life.Load() != life {
					return nil, syscall.ENETUNREACH
				}
				return w.net.dial(ctx, self, fmt.Sprintf("%s:%d", host, port), roomOf(port == 443))
			}
			return t
		},
	}, w.authority)
	w.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	front := w.net.listen(a.name, fmt.Sprintf("127.0.0.1:%d", 3128+a.index))
	done, file := make(chan struct{}), a.file
	a.server, a.front, a.stop, a.done = server, front, cancel, done
	a.stopped.Store(false)
	go func() {
		defer close(done)
		if err := server.Serve(ctx, front); err != nil {
			w.fault("%s has ended: %v", a.name, err)
		}
		if file != nil {
			file.Close()
		}
		if link != nil {
			link.killed.Store(true)
		}
	}()
}

// kill ends the abide as kill -9 does, as far as others can tell.
func (a *abide) kill() {
	a.stopped.Store(true)
	a.life.Add(1)
	a.link.killed.Store(true)
	a.front.Close()
	for _, c := range append(a.world.net.connsTo(a.name), a.world.net.connsOf(a.index)...) {
		c.reset()
	}
	a.stop()
	a.ended = append(a.ended, a.done)
}

// restart ends the abide gently, and starts it again when it has ended.
func (a *abide) restart() {
	a.stopped.Store(true)
	a.stop()
	<-a.done
	a.start()
}

// stamp adds the time and the instance to lines of the log.
type stamp struct {
	world *world
	name  string
}

func (stamp) Levels() []logrus.Level { return logrus.AllLevels }
func (s stamp) Fire(e *logrus.Entry) error {
	e.Message = fmt.Sprintf("%v %s %s", time.Since(s.world.began), s.name, e.Message)
	if e.Level <= logrus.ErrorLevel {
		s.world.fault("the log of %s has an error: %s", s.name, e.Message)
	}
	return nil
}

// link is the way from one abide to the store of a fleet.
type link struct {
	*reference.Store
	net    *network
	killed atomic.Bool

	mu    sync.Mutex
	dark  time.Time     // until when nothing passes
	fails time.Time     // until when the store answers with an error
	lossy time.Time     // until when answers are lost, or are given twice
	slow  time.Duration // of each answer
}

// pass waits as long as a message takes, there or back.
func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	dark, fails, slow := l.dark, l.fails, l.slow
	l.mu.Unlock()
	if err := clock.Sleep(ctx, max(time.Until(dark), 0)+l.net.latency()/10+slow); err != nil {
		return err
	}
	if l.killed.Load() || time.Now().Before(fails) {
		return reference.ErrUnreachable
	}
	return nil
}

// lost reports whether an answer is lost.
func (l *link) lost() bool {
	l.mu.Lock()
	lossy := time.Now().Before(l.lossy)
	l.mu.Unlock()
	return lossy && l.net.chance(0.3)
}

func (l *link) Exchange(ctx context.Context, batches []store.Batch) (replies []store.Reply, err error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	if replies, err = l.Store.Exchange(context.Background(), batches); err != nil {
		return nil, err
	}
	if l.lost() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return replies, nil
}

func (l *link) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	if err := l.pass(ctx); err != nil {
		return store.Pulse{}, err
	}
	return l.Store.Pulse(ctx, m)
}

func (l *link) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Store.Put(ctx, kind, key, value, until)
}

func (l *link) All(ctx context.Context, kind string) (map[string][]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.Store.All(ctx, kind)
}

func (l *link) Close() error { return nil }

// disk is a link to a store that stands for the file of one machine. Processes see each other by
// locks, whether the disk can be written or not.
type disk struct {
	*link
	processes int
}

// Several reports whether several processes use the file.
func (d disk) Several() bool { return d.processes > 1 }

func (d disk) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	return d.Store.Pulse(ctx, m)
}
