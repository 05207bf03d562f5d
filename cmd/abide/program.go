package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// adminDrain is the time that requests to the admin listener get to finish after the proxy
// has drained.
const adminDrain = 2 * time.Second

// program is one abide: the proxy, the admin listener, and what reloads the configuration.
// open makes it, and run runs it once.
type program struct {
	source  *source
	log     *logrus.Logger
	policy  atomic.Pointer[policy.Policy]
	ca      *ca.CA
	metrics *metrics.Metrics
	proxy   *proxy.Server
	kept    storage
	history *history.Recorder

	asked    *policy.Policy // with the addresses as configured
	listener net.Listener   // of the proxy
	open     net.Listener   // the listener on which all https is opened; nil: none
	admin    net.Listener   // nil when admin.listen is off
	tls      listenersTLS   // of listener and open, and of admin
	console  *http.Server   // on admin
	systemd  systemd        // "" unless a service manager started abide

	job       atomic.Pointer[steeredJob] // nil: this process runs no job
	drains    atomic.Pointer[time.Time]  // until when it drains; nil: it serves
	reloading sync.Mutex
	secrets   watch                         // of the files that the policy names; follow looks at them after the start
	refused   atomic.Pointer[refusedReload] // nil: the last reload succeeded, or there was none
	settled   counts                        // by site: requests that clients gave up longer than endingTime ago
	ofBrowser counts                        // by reason: answers of abide itself, and cut answers, to requests of browsers themselves
	ended     counts                        // requests and tunnels that have ended while it drained, by how, such as "cut", for the log
}

// steeredJob is the job of this process.
type steeredJob interface {
	Status(now time.Time) status.Job
	Pause(pause bool)
}

// addressOfRun returns the address of the proxy that each "abide run" in this working directory tries first: crawlers
// store the address with requests that they send in a later run, as Scrapy does in JOBDIR.
func addressOfRun(data string) string {
	dir, _ := os.Getwd() // without one, data alone tells runs apart
	hash := fnv.New32a()
	io.WriteString(hash, dir+"\n"+data)
	return fmt.Sprint("127.0.0.1:", 20_000+hash.Sum32()%10_000) // below the ports that systems give to clients
}

// open opens the listeners and the data directory of the policy. It serves nothing yet. A
// caller that does not call run must call close.
func open(ctx context.Context, s *source, p *policy.Policy, log *logrus.Logger) (*program, error) {
	a := &program{source: s, log: log, metrics: metrics.New(p.Metrics.Sites), asked: p}
	if err := a.start(ctx, p); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *program) start(ctx context.Context, p *policy.Policy) (err error) {
	a.metrics.BuildInfo(versionText(), runtime.Version())
	a.metrics.Reloaded(true)
	a.secrets.changed(secretFiles(p)) // before they are read, so that follow sees what changes from now on
	if err := startFaults(p); err != nil {
		return err
	}
	if p.Open.Run {
		a.listener, _ = net.Listen("tcp", addressOfRun(p.Data)) // if it is in use, another port will do
	}
	if a.listener == nil {
		if a.listener, err = a.listen(ctx, p, "listen", p.Listen); err != nil {
			return err
		}
	}
	if p.Open.Listen != "" {
		a.open, err = a.listen(ctx, p, "listen_open", p.Open.Listen)
		if err != nil && !p.Open.Default {
			return err
		}
		if err != nil { // abide serves without a listener that nobody has asked for
			a.log.WithField("reason", err).Warnf("there is no listener that opens all https: %v, or listen_open: off", err)
		}
	}
	if p.Admin.Listen != "" { // the last: an abide that drains keeps it, and clients can connect meanwhile
		if a.admin, err = a.listen(ctx, p, "admin.listen", p.Admin.Listen); err != nil {
			return err
		}
	}
	if err := a.tls.load(p); err != nil {
		return err
	}
	p = a.withActualAddresses(p)
	a.policy.Store(p)
	var unwritable error
	if a.ca, unwritable, err = openCA(p, a.metrics, a.log); err != nil {
		return err
	}
	from, err := a.kept.open(ctx, p, a.log)
	if err != nil {
		return err
	}
	if unwritable != nil && a.kept.health().Err == nil { // otherwise that warning says it
		a.log.WithFields(logrus.Fields{"path": ca.Dir(p.Data), "reason": unwritable}).Warnf("there is no CA in %s and none can be written there, so one is made in memory, which clients have to trust anew after a restart: %v", ca.Dir(p.Data), unwritable)
	}
	a.history = a.newHistory()
	if a.proxy, err = proxy.New(dispatch.Options{Policy: p, Metrics: a.metrics, Log: a.log, Lookup: os.LookupEnv, Keeping: from, Ended: a.countEnded}, a.ca); err != nil {
		return err
	}
	if a.admin == nil {
		return nil
	}
	if tcpAddr, ok := a.admin.Addr().(*net.TCPAddr); ok {
		a.proxy.Own(tcpAddr.AddrPort())
	}
	a.metrics.Certificates.Ask(a.ca.Cached)
	a.metrics.Holds.Ask(func() map[status.HeldCount]int { return a.proxy.HeldCounts() })
	a.metrics.Blocked.Ask(func() []status.BlockedTime { return a.proxy.Blocked() })
	a.metrics.Observed.Ask(func() []status.BlockedTime { return a.proxy.Observed() })
	a.metrics.Breakers.Ask(a.proxy.Breakers)
	a.metrics.Tokens.Ask(func() metrics.Known { return metrics.Known{Tokens: a.proxy.Tokens(), Written: a.proxy.WrittenLimits()} })
	a.metrics.Permits.Ask(a.proxy.OpenPermits)
	a.metrics.Jobs.Ask(func() []status.Job { return adminProcess{a}.Jobs(context.Background()) })
	if a.proxy.Store().Kind != "none" {
		a.metrics.Store(a.storeMetrics)
	}
	a.console = admin.Server(admin.New(admin.Options{
		Policy: a.policy.Load, CA: a.ca, Metrics: a.metrics, Proxy: a.proxy, Process: adminProcess{a}, History: a.history,
		Listen: a.listener.Addr().String(), EnvCommand: a.envCommand(p), Version: versionText(), Started: time.Now(), Log: a.log,
	}))
	return nil
}

// withActualAddresses is p with the addresses of the open listeners, which a name or port 0
// in the configuration does not determine.
func (a *program) withActualAddresses(p *policy.Policy) *policy.Policy {
	ours := *p
	ours.Listen = a.listener.Addr().String()
	switch {
	case a.open == nil:
		ours.Open.Listen = "" // the port is in use, or listen_open was off at the start
	case ours.Open.Listen != "":
		ours.Open.Listen = a.open.Addr().String()
	}
	if a.admin != nil {
		ours.Admin.Listen = a.admin.Addr().String()
	}
	return &ours
}

// close closes what open has opened.
func (a *program) close() {
	for _, l := range []net.Listener{a.listener, a.open, a.admin} {
		if l != nil {
			l.Close()
		}
	}
	a.kept.close(a.log)
}

// run serves until ctx is done and all requests have ended, or until a listener fails. Each
// value on reload makes abide read its configuration again.
func (a *program) run(ctx context.Context, reload <-chan struct{}) error {
	defer a.close()
	// The servers stop by this context, after /readyz has reported the stop.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	proxied := make(chan error, 1)
	consoled := make(chan error, 1)
	var running sync.WaitGroup
	var opens []net.Listener // on which all https is opened
	if a.open != nil {
		opens = append(opens, tlsListener{a.open, &a.tls.proxy})
	}
	running.Go(func() { proxied <- a.proxy.Serve(serving, tlsListener{a.listener, &a.tls.proxy}, opens...) })
	if a.admin != nil {
		running.Go(func() { consoled <- a.console.Serve(tlsListener{a.admin, &a.tls.admin}) })
	}
	running.Go(func() { a.follow(serving, reload) })
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	running.Go(func() { a.history.Run(recording) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-proxied:
		proxied <- nil // for who waits below
	case err = <-consoled:
		err = fmt.Errorf("serving the admin listener: %w", err)
	}
	drain := time.Now()
	until := drain.Add(a.policy.Load().Timeouts.Drain)
	a.drains.Store(&until)
	// The drain may take longer than the unit's TimeoutStopSec.
	a.systemd.send("STOPPING=1", "STATUS=stopping", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (until.Sub(drain)+adminDrain+5*time.Second).Microseconds()))
	if ctx.Err() != nil {
		a.log.Infof("stopping: what is in flight has %v to finish (timeouts.drain)", a.policy.Load().Timeouts.Drain)
	}
	stop()
	err = errors.Join(err, <-proxied)
	if ctx.Err() != nil {
		all, fields := 0, logrus.Fields{}
		for ending, n := range a.ended.all() {
			all, fields[ending] = all+int(n), n
		}
		a.log.WithFields(fields).Infof("stopped after %v: %s ended meanwhile", time.Since(drain).Round(100*time.Millisecond), countText(all, "request"))
	}
	// The admin listener stays open while the proxy drains, so that operators can watch
	// that.
	if a.admin != nil {
		last, cancel := context.WithTimeout(context.Background(), adminDrain)
		defer cancel()
		if a.console.Shutdown(last) != nil {
			a.console.Close()
		}
	}
	stopRecording() // all traffic is counted now
	running.Wait()
	return err
}

// background serves in a goroutine, for one command, as which it is registered. Advice is about that command alone. end stops that and waits until all requests have ended.
func (a *program) background(ctx context.Context, command string) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	a.history.BeginAnew(time.Now())
	unregister := a.register(command)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.run(ctx, nil); err != nil {
			a.log.WithField("reason", err).Error(err)
		}
	}()
	return func() {
		unregister()
		cancel()
		<-served
	}
}

// register registers this abide for commands with the same data directory. end removes the
// registration.
func (a *program) register(command string) (end func()) {
	p := a.policy.Load()
	if p.Data == "none" {
		return func() {}
	}
	r := registration{PID: os.Getpid(), Command: command, Proxy: a.listener.Addr().String(), Started: time.Now().UTC().Truncate(time.Millisecond)}
	if a.admin != nil {
		r.Admin, r.TLS = a.admin.Addr().String(), p.Admin.TLS.Given()
	}
	end, err := register(p.Data, r)
	if err != nil && a.kept.health().Err == nil {
		a.log.WithField("reason", err).Warnf("abide status and abide explain find this process only by --admin: %v", err)
	}
	if err != nil {
		return func() {}
	}
	return end
}

// drainText says until when abide drains.
func drainText(until time.Time) string {
	return "stopping: no new connections, and what is in flight has until " + until.UTC().Format("15:04:05 UTC") + " (timeouts.drain)"
}

// Ready is the answer of /readyz.
func (a adminProcess) Ready() []status.Check {
	if until := a.drains.Load(); until != nil {
		return []status.Check{{Name: status.Draining, Detail: drainText(*until)}}
	}
	checks := []status.Check{{Name: "proxy", OK: true, Detail: "listening on " + a.listener.Addr().String()}}
	return slices.Concat(checks, a.proxy.NextHop(), a.storeChecks(), a.refused.Load().checks())
}

// openCA opens the certificate authority in the data directory. It makes one in memory when
// nothing is kept, or the directory cannot be written: then unwritable says why.
func openCA(p *policy.Policy, m *metrics.Metrics, log *logrus.Logger) (authority *ca.CA, unwritable, err error) {
	options := ca.Options{
		Names: p.InterceptNames(), Cache: p.Bounds.Certificates, Cert: p.CA.Cert, Key: p.CA.Key, Roots: p.Egress.Roots,
		OnSign: m.Signed.Inc,
		Notice: func(text string) {
			if !p.Open.Off && p.Intercept.Mode != "all" && strings.Contains(text, "may not vouch for every host") {
				text += "; clients that do not have all https opened (abide env) may keep the old one. listen_open: off limits the CA to the hosts whose https the configuration opens"
			}
			log.Warn(text)
		},
	}
	authority, err = ca.Open(ca.Dir(p.Data), options)
	if disk.Unwritable(err) && !p.CA.Given() && !p.StrictState && !ca.Begun(ca.Dir(p.Data)) {
		unwritable = err
		authority, err = ca.Open("", options)
	} else if err != nil && p.CA.Given() {
		err = usage(err)
	} else if err != nil {
		err = dataError(p, err)
	}
	return authority, unwritable, err
}

func dataError(p *policy.Policy, err error) error {
	return fmt.Errorf("opening the data directory %s: %w; choose another with --data, ABIDE_DATA or data, or keep nothing with --data none", p.Data, err)
}

// startFaults is why abide cannot start with what a configuration names outside itself, one
// fault a line: certificates, the data directory, the access log, and files of the store's URL. It changes
// nothing. If you add a file that is read at the start, add it here: check and serve both
// use it.
func startFaults(p *policy.Policy) error {
	faults := []error{dispatch.CheckRoots(p.Egress.Roots), accesslog.Inspect(p.Log.Access), new(listenersTLS).load(p)}
	if p.Store.Shared() {
		shared, err := store.NewRedis(&p.Store, nil)
		if err != nil {
			faults = append(faults, fmt.Errorf("store: %w", err))
		} else {
			_ = shared.Close() // the client has not connected
		}
	}
	err := errors.Join(faults...)
	if err != nil {
		err = usage(err)
	}
	if p.Data == "none" {
		return err
	}
	// Another start may be able to use the data directory, so what is wrong with that is no fault of the configuration.
	_, wrong := openData(p)
	if dir := ca.Dir(p.Data); wrong == nil && !p.CA.Given() {
		if unfit := ca.Inspect(dir); unfit != nil && (p.StrictState || ca.Begun(dir) || !disk.Unwritable(unfit)) {
			wrong = dataError(p, unfit)
		}
	}
	if wrong == nil {
		wrong = store.InspectFile(filepath.Join(p.Data, stateFile), p.StrictState)
	}
	return errors.Join(err, wrong)
}

// foreignAddresses warns of listen addresses that this machine does not have. The
// configuration may be for another machine.
func foreignAddresses(p *policy.Policy) (warnings []string) {
	for _, one := range []struct{ key, address string }{{"listen", p.Listen}, {"listen_open", p.Open.Listen}, {"admin.listen", p.Admin.Listen}} {
		host, _, err := net.SplitHostPort(one.address)
		if err != nil {
			continue // no address is configured
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		switch {
		case err == nil:
			l.Close()
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			warnings = append(warnings, fmt.Sprintf("%s: this machine does not have the address of %s, and abide would not start on it", one.key, one.address))
		}
	}
	return warnings
}

// listen opens a listener for a setting. Its error says what to do.
func (a *program) listen(ctx context.Context, p *policy.Policy, key, address string) (net.Listener, error) {
	l, err := a.bind(ctx, p, key, address)
	if err == nil {
		return l, nil
	}
	flag := flagOf(key)
	other := fmt.Sprintf("--%s, ABIDE_%s or %s", flag, strings.ToUpper(strings.ReplaceAll(flag, "-", "_")), key)
	_, port, _ := net.SplitHostPort(address)
	inUse := errors.Is(err, syscall.EADDRINUSE)
	switch {
	case inUse && port == "0":
		return nil, fmt.Errorf("%s: this machine has no port left for %s; wait until some of its connections have ended", key, address)
	case inUse || strings.Contains(err.Error(), "Only one usage of each socket address"):
		return nil, fmt.Errorf("%s: %s is in use by another process, maybe another abide; stop that one or choose another address with %s", key, address, other)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: this user may not listen on %s; choose a port above 1023 with %s", key, address, other)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s: this machine does not have the address of %s; choose another with %s", key, address, other)
	}
	return nil, fmt.Errorf("%s: %w; choose another address with %s", key, err, other)
}

// adminProcess offers the admin listener what it needs of the process.
type adminProcess struct{ *program }
