package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/sitelog"
)

// The API of the demo has the name demoHost and allows demoAllowed requests in each demoWindow. The
// crawler asks it for demoItems items.
const (
	demoHost    = "api.example.com"
	demoAllowed = 5
	demoWindow  = 5 * time.Second
	demoItems   = 12
)

// demoDefaults are the settings of the demo's abide.
var demoDefaults = map[string]string{"data": "none", "intercept": "none", "log.level": "warn"}

func demoCommand() *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what abide does, in 15 seconds and without a network",
		Long: `Demo starts a small API on this machine that allows 5 requests in 5 seconds, and
crawls it twice: without abide, and through an abide. Nothing leaves this
machine, nothing is kept, and no configuration is read.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			caught, out := catchSignals(cmd.Context()), cmd.OutOrStdout()
			defer caught.close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return fmt.Errorf("starting the demo's API: %w", err)
			}
			api := &demoAPI{}
			server := &http.Server{Handler: api, ReadHeaderTimeout: time.Minute}
			go func() { _ = server.Serve(l) }() // until it is closed
			defer server.Close()
			fmt.Fprintf(out, "An API allows 5 requests in 5 seconds and refuses others with 429. A crawler asks it\n"+
				"for 12 items, one after the other. Both run on this machine; the API is at %s\nand stands for http://%s.\n\nWithout abide:\n\n", l.Addr(), demoHost)
			direct := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
			}}
			if err := demoCrawl(caught.stop, out, direct); err != nil {
				return err
			}

			s := &source{flags: flagsOf(cmd.Flags()), defaults: demoDefaults}
			s.fit = func(p, _ *policy.Policy) error {
				p.Egress.Resolve = map[string]string{demoHost + ":80": l.Addr().String()}
				return nil
			}
			p, err := s.load()
			if err != nil {
				return err
			}
			a, err := open(cmd.Context(), s, p, newLog(cmd.ErrOrStderr(), p.Log))
			if err != nil {
				return err
			}
			defer a.background(context.Background(), "demo")()
			dashboard := "http://" + addressOf(a.admin) + "/"
			fmt.Fprintf(out, "\nThrough abide, which learns the limit from the first answer and holds each request\n"+
				"until the API allows it. That takes 12 seconds; meanwhile its dashboard is at\n%s\n\n", dashboard)
			api.mu.Lock()
			api.opened = time.Time{} // a new window begins
			api.mu.Unlock()
			began := time.Now()
			if err := demoCrawl(caught.stop, out, &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addressOf(a.listener)})}); err != nil {
				return err
			}
			fmt.Fprint(out, "\nWhat abide says about it:\n\n")
			happened := a.summary(time.Since(began), a.settled.all(), true)
			happened.write(out)
			fmt.Fprint(out, "\nThe same for a crawler of yours, in any language, as it is:\n\n  abide run -- python crawl.py\n")
			if stay {
				fmt.Fprintf(out, "\nThe dashboard stays at %s until Ctrl-C.\n", dashboard)
				<-caught.stop.Done()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&stay, "stay", false, "go on until Ctrl-C, so that the dashboard can be looked at")
	return cmd
}

// demoCrawl asks for the items by a transport, and prints the status of each answer as it comes: a
// row of answers for each time that they came, and how many answers had which status.
func demoCrawl(ctx context.Context, out io.Writer, by *http.Transport) error {
	defer by.CloseIdleConnections()
	counts := map[int]int{}
	began, last := time.Now(), time.Time{}
	for n := range demoItems {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/items/%d", demoHost, n), nil)
		if err != nil {
			return err
		}
		answer, err := by.RoundTrip(r)
		if ctx.Err() != nil {
			fmt.Fprintln(out)
			return errors.New("the demo was stopped")
		}
		if err != nil {
			return fmt.Errorf("asking the demo's API: %w", err)
		}
		answer.Body.Close()
		counts[answer.StatusCode]++
		if now := time.Now(); now.Sub(last) > time.Second {
			fmt.Fprintf(out, "%s  after %4.1f s ", strings.Repeat("\n", min(n, 1)), now.Sub(began).Seconds())
			last = now
		}
		fmt.Fprintf(out, " %d", answer.StatusCode)
	}
	text := strings.NewReplacer("map[", "{", "]", "}", ":", ": ", " ", ", ").Replace(fmt.Sprint(counts)) // {200: 12}
	fmt.Fprintf(out, "\n\n  %s in %s\n", text, sitelog.InSeconds(time.Since(began)))
	return nil
}

// demoAPI answers as an API with a limit does.
type demoAPI struct {
	mu     sync.Mutex
	opened time.Time // begin of the window
	used   int       // requests in the window
}

func (a *demoAPI) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.opened) >= demoWindow {
		a.opened, a.used = now, 0
	}
	a.used++
	reset := strconv.Itoa(int((a.opened.Add(demoWindow).Sub(now) + time.Second - 1) / time.Second)) // seconds, rounded up
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(demoAllowed))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(demoAllowed-a.used, 0)))
	w.Header().Set("X-RateLimit-Reset", reset)
	if a.used > demoAllowed {
		w.Header().Set("Retry-After", reset)
		w.WriteHeader(http.StatusTooManyRequests)
	}
	fmt.Fprintln(w, "{}")
}
