package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
)

// adminDrain is what a scrape or a status page that is on its way gets at the
// end, after the proxy has drained.
const adminDrain = 2 * time.Second

// program is one abide: the proxy, the operator's listener beside it, and what
// keeps both configured. Open makes it, Run runs it, once. The command line is
// only signals and words around it.
type program struct {
	source  *source // nil: the configuration stays as it is
	log     *logrus.Logger
	policy  atomic.Pointer[policy.Policy]
	ca      *ca.CA
	metrics *metrics.Metrics
	proxy   *proxy.Server
	kept    *keeping

	asked    addresses    // as they were configured
	listener net.Listener // of the proxy
	open     net.Listener // where all https is opened, nil when there is none
	admin    net.Listener // nil when admin.listen is off
	console  *http.Server // on admin
	systemd  *systemd     // nil unless a service manager started abide

	stopping  atomic.Bool
	reloading sync.Mutex
	refused   refusedReload
}

// open takes the addresses and the data directory that the policy names, and
// starts nothing yet. Whoever does not Run the program closes it.
func open(s *source, p *policy.Policy, log *logrus.Logger) (*program, error) {
	a := &program{source: s, log: log, metrics: metrics.New(p.Metrics.Sites), asked: addressesOf(p)}
	if err := a.start(p); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *program) start(p *policy.Policy) (err error) {
	a.metrics.BuildInfo(versionText(), runtime.Version())
	a.metrics.Reloaded(true)
	if err := unusable(p); err != nil {
		return err
	}
	if a.listener, err = listen("listen", p.Listen); err != nil {
		return err
	}
	if p.Admin.Listen != "" {
		if a.admin, err = listen("admin.listen", p.Admin.Listen); err != nil {
			return err
		}
	}
	if err := a.listenOpen(p); err != nil {
		return err
	}
	p = a.placed(p)
	a.policy.Store(p)
	if a.ca, err = openCA(p, a.metrics, a.log); err != nil {
		return err
	}
	var from proxy.Keeping
	if a.kept, from, err = openKeeping(context.Background(), p, a.log); err != nil {
		return err
	}
	if a.proxy, err = proxy.New(proxy.Options{Policy: p, CA: a.ca, Metrics: a.metrics, Log: a.log, Lookup: os.LookupEnv, Keeping: from}); err != nil {
		return err
	}
	if a.admin == nil {
		return nil
	}
	if own, ok := a.admin.Addr().(*net.TCPAddr); ok {
		a.proxy.Own(own.AddrPort())
	}
	a.metrics.CertificateCache(a.ca.Cached)
	a.metrics.Holds(a.holdCounts)
	a.metrics.Blocked(func() []metrics.BlockedTime { return blockedTimes(a.proxy.Blocked()) })
	a.metrics.Observed(func() []metrics.BlockedTime { return blockedTimes(a.proxy.Observed()) })
	a.metrics.Breakers(a.breakerStates)
	a.metrics.Tokens(a.known)
	a.console = admin.Server(admin.New(a.fleetOptions(admin.Options{
		Policy: a.policy.Load, CA: a.ca, Metrics: a.metrics, Ready: a.ready,
		Listen: a.listener.Addr().String(), EnvCommand: a.envCommand(p), Connections: a.connections, Holds: a.holds, Breakers: a.breakers, Explain: a.explain,
		Tokens: a.tokens, Disable: a.proxy.DisableToken, Enable: a.proxy.EnableToken,
		Version: versionText(), Started: time.Now(), Log: a.log,
	})))
	return nil
}

// placed is p with the addresses that were taken, which a name or port 0 in the
// configuration leave open.
func (a *program) placed(p *policy.Policy) *policy.Policy {
	own := *p
	own.Listen = a.listener.Addr().String()
	switch {
	case a.open == nil:
		own.Open.Listen = "" // its port is taken, or listen_open was off when abide started
	case own.Open.Listen != "":
		own.Open.Listen = a.open.Addr().String()
	}
	if a.admin != nil {
		own.Admin.Listen = a.admin.Addr().String()
	}
	return &own
}

// close gives up what open took.
func (a *program) close() {
	for _, l := range []net.Listener{a.listener, a.open, a.admin} {
		if l != nil {
			l.Close()
		}
	}
	a.kept.close(a.log)
}

// Run serves until ctx is done and what was in flight has ended, or until a
// listener fails. Each value on reload has it read its configuration again.
func (a *program) Run(ctx context.Context, reload <-chan struct{}) error {
	defer a.close()
	// What serves hears of the stop from here, once /readyz tells it.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	proxied := make(chan error, 1)
	consoled := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { proxied <- a.proxy.Serve(serving, a.listener, a.opens()...) })
	if a.admin != nil {
		running.Go(func() { consoled <- a.console.Serve(a.admin) })
	}
	running.Go(func() { a.follow(serving, reload) })
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	running.Go(func() { a.record(recording) })

	var err error
	ended := false
	select {
	case <-ctx.Done():
	case err = <-proxied:
		ended = true
	case err = <-consoled:
		err = fmt.Errorf("serving the admin listener: %w", err)
	}
	a.stopping.Store(true)
	a.systemd.stopping("stopping", a.policy.Load().Timeouts.Drain)
	if ctx.Err() != nil {
		a.log.Infof("stopping: what is in flight has %v to finish (timeouts.drain)", a.policy.Load().Timeouts.Drain)
	}
	stop()
	if !ended {
		err = errors.Join(err, <-proxied)
	}
	// The console stays up while the proxy drains, so that whoever watches
	// sees it.
	if a.admin != nil {
		last, cancel := context.WithTimeout(context.Background(), adminDrain)
		defer cancel()
		if a.console.Shutdown(last) != nil {
			a.console.Close()
		}
	}
	stopRecording() // all is counted now
	running.Wait()
	return err
}

// connections is what the status tells of those that are open.
func (a *program) connections() admin.Connections {
	clients, tunnels := a.metrics.Open()
	return admin.Connections{Clients: clients, Tunnels: tunnels}
}

// ready is what /readyz tells.
func (a *program) ready() []admin.Check {
	if a.stopping.Load() {
		return []admin.Check{{Name: "proxy", Detail: "stopping"}}
	}
	return append([]admin.Check{{Name: "proxy", OK: true, Detail: "listening on " + a.listener.Addr().String()}}, append(a.storeChecks(), a.refused.checks()...)...)
}

// openCA opens the certificate authority in the data directory, or makes one in
// memory when nothing is to be kept, or nothing can be.
func openCA(p *policy.Policy, m *metrics.Metrics, log *logrus.Logger) (*ca.CA, error) {
	options := ca.Options{
		Names: p.InterceptNames(), Cache: p.Bounds.Certificates, Cert: p.CA.Cert, Key: p.CA.Key, Roots: p.Egress.Roots,
		OnSign: m.Signed,
		Notice: func(text string) { log.Warn(text + caNotice(p, text)) },
	}
	authority, err := ca.Open(ca.Dir(p.Data), options)
	if ca.Unwritable(err) && !p.CA.Given() && !p.StrictState && !ca.Begun(ca.Dir(p.Data)) {
		log.Warnf("there is no CA in %s and none can be written there, so one is made in memory, which clients have to trust anew after a restart: %v", ca.Dir(p.Data), err)
		return ca.Open("", options)
	}
	if err != nil && p.CA.Given() {
		return nil, err
	}
	if err != nil {
		return nil, notOpened(p, err)
	}
	return authority, nil
}

func notOpened(p *policy.Policy, err error) error {
	return fmt.Errorf("opening the data directory %s: %w; choose another with --data, ABIDE_DATA or data, or keep nothing with --data none", p.Data, err)
}

// caNotice adds to the CA's notice of a new certificate that some clients may keep the
// old one.
func caNotice(p *policy.Policy, text string) string {
	if p.Open.Off || p.Intercept.Mode == "all" || !strings.Contains(text, "may not vouch for every host") {
		return ""
	}
	return "; clients that do not have all https opened (abide env) may keep the old one. listen_open: off limits the CA to the hosts whose https the configuration opens"
}
