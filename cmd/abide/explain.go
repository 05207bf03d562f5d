package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func explainCommand() *cobra.Command {
	var x struct {
		method, client string
		json           bool
	}
	cmd := &cobra.Command{
		Use:   "explain URL",
		Short: "Print which rule holds for a URL, and what keeps a request now",
		Long: `Explain says which rule of the configuration a request for this URL would meet,
whether it would be intercepted, which of its limits are about that path, and
what else holds for it. A URL without a scheme is taken as https.

When a proxy runs at the configuration's admin.listen, or with the same data
directory, such as that of "abide run", it is asked what would keep such a
request now, and until when, what its place in the queue would be, what is left
of each limit, and what would change that. Several are asked one after the
other; --admin chooses one. If none runs, the state file that the last one left
says what the next one would know. Nothing is sent to the site. It is explained
for one client: that of --client, else the client that has the most requests
waiting at the site, else the first of access.clients, else 127.0.0.1.`,
		Example: `  abide explain https://api.example.com/2/tweets/17/retweeted_by
  abide explain --json --client news api.example.com`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, path, err := targetOf(args[0])
			if err != nil {
				return usage(err)
			}
			// The running abide explains also where the file has faults.
			p, wrong := loadPolicy(cmd)
			// The running abide knows whether https is opened, so it is asked first. Its answer is
			// printed last.
			query := url.Values{"url": {urlOf(target, path)}, "method": {x.method}}
			if x.client != "" {
				query.Set("client", x.client)
			}
			var answers bytes.Buffer
			answered, live := askRunning(cmd, &answers, x.json, func(ctx context.Context, at abideAt) error {
				var e status.Explanation
				body, err := at.ask(ctx, http.MethodGet, "explain?"+query.Encode(), nil, &e)
				if err != nil || x.json {
					answers.Write(body) // none with an error
					return err
				}
				if wrong == nil && e.Site != p.Match(target).Site {
					fmt.Fprintf(cmd.ErrOrStderr(), "the proxy at %s has another configuration: there the site is %s\n", at.Admin, status.Line(e.Site))
				}
				e.Describe(&answers, time.Now())
				return nil
			})
			if answered && live != nil && !x.json {
				fmt.Fprintln(cmd.ErrOrStderr(), live)
				live = nil
			}
			live = orSaved(cmd, live, true, func(a adminProcess) error {
				e, err := a.Explain(x.method, urlOf(target, path), x.client)
				if e = e.Normalize(time.Now()); x.json && err == nil {
					return json.NewEncoder(&answers).Encode(e)
				}
				if err == nil {
					if e.UnreadUntil.IsZero() {
						e.Target = "" // the configuration says what becomes of https
					}
					e.Describe(&answers, time.Now())
				}
				return err
			})
			if wrong == nil && !x.json {
				p.Explain(cmd.OutOrStdout(), target, path, answered)
				if answers.Len() > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
			}
			_, _ = answers.WriteTo(cmd.OutOrStdout())
			switch {
			case wrong != nil && live != nil:
				return wrong
			case wrong != nil:
				fmt.Fprintf(cmd.ErrOrStderr(), "the configuration has faults, so this is what the running proxy says alone:\n%v\n", wrong)
				return nil
			case live != nil && !x.json:
				if none, ok := errors.AsType[notRunning](live); ok {
					live = none
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%v, so this is the configuration alone\n", live)
				return nil
			}
			return live
		},
	}
	cmd.Flags().StringVar(&x.method, "method", "GET", "the request's `method`")
	cmd.Flags().StringVar(&x.client, "client", "", "`name` or address of the client that asks (default the one with most requests waiting)")
	cmd.Flags().BoolVar(&x.json, "json", false, "print what the running proxy answers, as JSON, and nothing else")
	return cmd
}

// urlOf returns the URL that the running process is asked about: without the user, the query
// and whatever else could be secret.
func urlOf(t policy.Target, path string) string { return t.Scheme + "://" + t.HostPort() + path }

// targetOf returns the target of a URL of the command line, and its escaped path. A user
// name and password in the URL are not printed.
func targetOf(text string) (t policy.Target, path string, err error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error repeats the URL, which may hold a password.
		return t, "", errors.New("this is no URL; one looks like https://example.com/path")
	}
	if u.Host == "" {
		return t, "", errors.New("this URL names no host")
	}
	t, err = policy.ParseTarget(strings.ToLower(u.Scheme), u.Host)
	if err != nil {
		return t, "", fmt.Errorf("reading the URL: %w", err)
	}
	return t, cmp.Or(u.EscapedPath(), "/"), nil
}

// Explain tells what a request would meet now.
func (a adminProcess) Explain(method, text, client string) (status.Explanation, error) {
	target, path, err := targetOf(text)
	if err != nil {
		return status.Explanation{}, err
	}
	u, err := url.Parse(urlOf(target, path))
	if err != nil {
		return status.Explanation{}, err
	}
	e, err := a.proxy.Explain(method, u, client)
	if err == nil && !e.Intercepted && e.UnreadUntil.IsZero() {
		if e.OpenedAt = a.policy.Load().Open.Listen; a.open != nil { // of the next abide, where none runs
			e.OpenedAt = addressOf(a.open)
		}
	}
	return e, err
}
