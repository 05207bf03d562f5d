package main

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/admin/advice"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

func adviseCommand() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Say what holds requests back, and which change would help",
		Long: `Advise asks the running proxy which limits have held requests in the last hour,
and prints what would change that: one more token, a larger limit, https that is
opened, a longer time-out where clients give requests up. Numbers are what the
limits come to.

It finds the proxy, or several, as abide status does. After a reload that changed
something, and in "abide run", it goes by what was counted since then. If no proxy
runs, it does so by the state file that the last one has left.`,
		Example: `  abide advise
  abide advise --json | jq -r '.advice[].text'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := printAnswers(cmd, asJSON, "advice", func(l status.AdviceList, w io.Writer) { l.Describe(w, all) })
			return orSaved(cmd, err, false, func(a adminProcess) error {
				now := time.Now()
				a.history.Load(cmd.Context(), now)
				list := a.Advice(now)
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
				}
				list.Describe(cmd.OutOrStdout(), all)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print what matters less, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what the proxy's API answers")
	return cmd
}

// Advice lists what holds requests back, and what would change that.
func (c adminProcess) Advice(now time.Time) status.AdviceList {
	f := c.adviceFacts(now)
	f.History, f.Since, f.Active = c.history.Recent(now, time.Hour)
	lately, _, _ := c.history.Recent(now, advice.Lately)
	f.Failed = lately[store.FailedRows]
	for _, one := range f.History[store.BlockedRows] {
		f.Pools[one.Site] = c.poolOf(one.Site)
	}
	if u := admin.UnreadNow(c.policy.Load(), c.metrics.Sites()); u != nil {
		f.Unread = u.Sites
	}
	list := advice.Advise(f)
	if until := c.drains.Load(); until != nil {
		list.Advice = slices.Insert(list.Advice, 0, status.Advice{Rule: status.Draining, Weight: 1, Text: "This abide is draining, " + drainText(*until) + ".", Change: "Start the next one."})
	}
	return list
}

// adviceFacts returns the facts for advice, without the recorded history.
func (a *program) adviceFacts(now time.Time) advice.Facts {
	f := advice.Facts{
		Now: now, Limits: a.proxy.WrittenLimits(), Tokens: a.proxy.Tokens(),
		Pools: map[string]string{}, Waiting: map[string]queue.SiteWaiting{}, Broken: status.NotClosed(a.proxy.Breakers()), Paused: a.proxy.Pauses(),
		Cooldowns: a.proxy.Cooldowns(status.LongPause),
	}
	for _, one := range a.proxy.Waiting() {
		f.Waiting[one.Site] = one.SiteWaiting
	}
	return f
}

// poolOf returns the pool of a site, "" for none.
func (a *program) poolOf(site string) string {
	if rule := a.policy.Load().RuleOf(site); rule != nil {
		return rule.Pool
	}
	return ""
}
