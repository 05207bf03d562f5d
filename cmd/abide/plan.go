package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin/plan"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/tokens"
)

func planCommand() *cobra.Command {
	var x planCall
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say when a crawl would end, and what limits it",
		Long: `Plan simulates a crawl on the configuration, in virtual time, with the rules and
the queue of a real abide. It says when the crawl ends, what limits it, how many
refusals to expect, and how much sooner it would end with one more token, twice
the limit that limits most, or twice the clients. A million requests take
seconds. Nothing is sent anywhere, and nothing is written.

The requests are --requests from --clients, each of which sends its next request
when it has its answer. Or they are those of an access log (--from-log), such as
yesterday's: "abide serve --log-access" with log.format: json writes one. Then
clients ask in the order of the log, each as long after its last answer as then;
with --keep-times requests come when they came, however long answers take.

Sites answer after --latency, or as long as the log says. They are taken to
allow all that the configuration lets through. --site-limit gives them a limit
of their own, which they announce in headers unless they are --silent.

The command ends with 1 if some requests are never answered.`,
		Example: `  abide plan --site api.x.com --requests 1e6 --clients 20
  abide plan --site api.x.com --tokens 8 --latency 120ms --no-what-ifs
  abide plan --site api.x.com --site-limit "900 per 15m by token"
  abide plan --config proposed.yaml --from-log access.jsonl`,
		RunE: func(cmd *cobra.Command, _ []string) error { return x.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&x.site, "site", "", "`host` or URL that the requests are for")
	f.StringVar(&x.requests, "requests", "100k", "how `many` requests: 1e6, 1M, 1_000_000")
	f.IntVar(&x.crawl.Clients, "clients", 20, "how `many` clients, which each send one request at a time")
	f.StringVar(&x.crawl.Client, "client", "", "`name` of all clients (default each has its own)")
	f.DurationVar(&x.crawl.Latency, "latency", 300*time.Millisecond, "`time` from sending a request to its answer")
	f.StringVar(&x.bytes, "bytes", "20kB", "`size` of a request and its answer, with headers")
	f.StringVar(&x.crawl.Method, "method", http.MethodGet, "the requests' `method`")
	f.StringVar(&x.crawl.Path, "path", "", "the requests' `path` (default /)")
	f.IntVar(&x.crawl.Priority, "priority", -1, "the requests' `priority`, 0 to 7 (default that of rule or client)")
	f.StringVar(&x.fromLog, "from-log", "", "replay the access log in this `file` (- is standard input; .gz is read)")
	f.BoolVar(&x.keepTimes, "keep-times", false, "with --from-log: requests come when they came")
	f.StringVar(&x.siteLimit, "site-limit", "", "the site's own `limit`: \"900 per 15m by token\"")
	f.BoolVar(&x.silent, "silent", false, "with --site-limit: no header says what is left or when to come again")
	f.IntVar(&x.tokens, "tokens", 0, "plan with so `many` tokens, without reading any")
	f.StringVar(&x.start, "start", "", "`time` of the first request, as 2006-01-02T15:04:05Z or Unix seconds (default now, or that of the log)")
	f.BoolVar(&x.noWhatIfs, "no-what-ifs", false, "simulate the crawl as it is, and nothing else")
	f.BoolVar(&x.json, "json", false, "print the plan as JSON")
	return cmd
}

// planCall is one call of the command.
type planCall struct {
	site, requests, fromLog, start, siteLimit, bytes string
	crawl                                            plan.Crawl
	keepTimes, silent, noWhatIfs, json               bool
	tokens                                           int
}

func (x *planCall) run(cmd *cobra.Command) error {
	if err := x.check(cmd); err != nil {
		return usage(err)
	}
	p, err := loadPolicy(cmd)
	if err != nil {
		return err
	}
	s, err := x.scenario(cmd, p)
	if err != nil {
		return err
	}
	if err := x.readTokens(cmd.Context(), p, &s); err != nil {
		return err
	}
	if s.Log == nil && os.Getenv("GOGC") == "" { // the operator may say how often the garbage collector runs
		debug.SetGCPercent(800) // a plan without a log needs little memory, and drops much of it all the time
	}
	return x.print(cmd.Context(), cmd.OutOrStdout(), p, s)
}

// check tells which flags do not go together.
func (x *planCall) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case x.fromLog == "" && x.site == "":
		return errors.New("which requests? write --site HOST, or --from-log FILE")
	case x.fromLog == "" && given("keep-times"):
		return errors.New("--keep-times goes with --from-log")
	case x.siteLimit == "" && x.silent:
		return errors.New("--silent goes with --site-limit")
	case given("tokens") && x.tokens < 1:
		return fmt.Errorf("--tokens: %d tokens are none", x.tokens)
	case given("priority") && (x.crawl.Priority < 0 || x.crawl.Priority > 7):
		return fmt.Errorf("--priority: %d is not 0 (most urgent) to 7", x.crawl.Priority)
	}
	if x.fromLog != "" {
		return notFor(cmd, "from-log", "site", "requests", "clients", "client", "latency", "bytes", "method", "path", "priority")
	}
	return nil
}

// scenario returns the scenario of the flags, or that of the log.
func (x *planCall) scenario(cmd *cobra.Command, p *policy.Policy) (s plan.Scenario, err error) {
	s = plan.Scenario{Start: time.Now().UTC().Truncate(time.Second), KeepTimes: x.keepTimes, Silent: x.silent}
	if x.siteLimit != "" {
		if s.SiteLimit, err = plan.ParseSiteLimit(x.siteLimit); err != nil {
			return s, usage(fmt.Errorf("--site-limit: %w", err))
		}
	}
	if x.fromLog != "" {
		if s.Log, err = readAccessLog(cmd, x.fromLog); err != nil {
			return s, err
		}
		s.Start = s.Log.Began
	} else if s.Crawl, err = x.readCrawl(p); err != nil {
		return s, usage(err)
	}
	at, err := readTime("start", x.start)
	s.Start = cmp.Or(at, s.Start)
	return s, err
}

// readCrawl is the crawl that the flags say.
func (x *planCall) readCrawl(p *policy.Policy) (c plan.Crawl, err error) {
	c = x.crawl
	if c.Requests, err = readCount(x.requests); err != nil {
		return c, fmt.Errorf("--requests: %w", err)
	}
	size, err := policy.ParseSize(x.bytes)
	if err != nil {
		return c, fmt.Errorf("--bytes: %w", err)
	}
	path := ""
	if c.Target, path, err = targetOf(hostOf(p, x.site)); err != nil {
		return c, fmt.Errorf("--site: %w", err)
	}
	c.Path = cmp.Or(c.Path, path)
	c.Bytes, c.Method = int64(size), strings.ToUpper(c.Method)
	wrong := c.Check()
	switch {
	case wrong != nil:
		return c, fmt.Errorf("--%w", wrong)
	case !strings.HasPrefix(c.Path, "/"):
		return c, fmt.Errorf("--path: %q does not begin with /", shorten.To(61, c.Path))
	case len(p.Access.Clients) > 0 && c.Client != "" && !slices.ContainsFunc(p.Access.Clients, func(known policy.Client) bool { return known.Name == c.Client }):
		return c, fmt.Errorf("--client: access.clients names no %q", shorten.To(61, c.Client))
	}
	return c, nil
}

// hostOf is a host of a site: the site itself, or where it has the name of a rule, a host
// of that rule.
func hostOf(p *policy.Policy, site string) string {
	for i := range p.Sites {
		rule := &p.Sites[i]
		if rule.Name != site && rule.Title() != site || len(rule.Hosts) == 0 || rule.Hosts[0].All {
			continue
		}
		return strings.Replace(rule.Hosts[0].String(), "*.", "www.", 1)
	}
	return site
}

// readCount reads a number of requests: 1e6, 1M, 10k, 1_000_000.
func readCount(text string) (int, error) {
	number, factor := strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6} {
		if rest, cut := strings.CutSuffix(number, suffix); cut {
			number, factor = rest, by
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	n *= factor
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return 0, fmt.Errorf("%q is not a number such as 1e6, 1M or 1_000_000", shorten.To(61, text))
	case n != math.Trunc(n) || n < 1 || n > plan.MostRequests:
		return 0, fmt.Errorf("%s is not a whole number from 1 to %d", shorten.To(61, text), plan.MostRequests)
	}
	return int(n), nil
}

// readTokens finds out which tokens the pools have that the scenario needs.
func (x *planCall) readTokens(ctx context.Context, p *policy.Policy, s *plan.Scenario) error {
	s.Tokens = map[string][]policy.Token{}
	names := s.Pools(p)
	if x.tokens > 0 && len(names) == 0 {
		return usage(errors.New("--tokens: no rule for these requests has a pool"))
	}
	var faults policy.Faults
	for _, name := range names {
		if x.tokens > 0 {
			s.Tokens[name] = make([]policy.Token, x.tokens)
			continue
		}
		pool := p.Pool(name)
		loaded, err := tokens.Load(ctx, *pool, tokens.Surroundings{Config: p.File, Lookup: os.LookupEnv})
		if err != nil {
			faults = append(faults, tokens.FaultsAt(p, pool, err)...)
			continue
		}
		for _, one := range loaded.Entries {
			s.Tokens[name] = append(s.Tokens[name], policy.Token{Label: one.Label, Account: one.Account})
		}
	}
	if len(faults) > 0 {
		return usage(fmt.Errorf("reading the tokens, whose number counts (--tokens N plans without reading them):\n%w", faults))
	}
	return nil
}

// print simulates the scenario and writes how it goes.
func (x *planCall) print(ctx context.Context, w io.Writer, p *policy.Policy, s plan.Scenario) error {
	r, err := plan.Run(ctx, p, s)
	if err != nil {
		return err
	}
	if !x.json {
		r.Describe(w) // at once: the what-ifs take longer
	}
	if !x.noWhatIfs {
		if r.WhatIfs, err = plan.WhatIfs(ctx, p, s, r); err != nil {
			return err
		}
	}
	switch {
	case x.json:
		err = json.NewEncoder(w).Encode(r)
	case len(r.WhatIfs) > 0:
		fmt.Fprintln(w)
		r.DescribeWhatIfs(w)
	}
	if err == nil && !r.Finished {
		return &exit{code: exitFailed} // the output says what is not answered
	}
	return err
}

// readAccessLog reads the access log of a file, which gzip may have compressed; - is
// standard input.
func readAccessLog(cmd *cobra.Command, name string) (*plan.Log, error) {
	in, name, err := openInput(cmd, name)
	if err != nil {
		return nil, usage(fmt.Errorf("--from-log: %w", err))
	}
	defer in.Close()
	var log *plan.Log
	b := bufio.NewReader(in)
	text := io.Reader(b)
	if head, _ := b.Peek(2); string(head) == "\x1f\x8b" {
		text, err = gzip.NewReader(b)
	}
	if err == nil {
		log, err = plan.ReadLog(cmd.Context(), text)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return log, nil
}
