package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/proxy/shard"
)

func shardCommand() *cobra.Command {
	var x shardCall
	cmd := &cobra.Command{
		Use:   "shard [-i INDEX] [-n OF] [FILE...]",
		Short: "Keep the URLs that one crawler of several owns",
		Long: `Shard reads URLs, one a line, and prints those that crawler INDEX of OF owns, as
they are written and in their order. The first crawler is 0. Without FILE, or
for -, it reads standard input. Each URL has exactly one owner, which follows
from the URL and OF alone: no list is needed, and from OF to OF+1 crawlers
only what the new one gets moves.

What is not given is that of the configuration's shard, with which the proxy
refuses the URLs of others. With -i, -n and --by all three no configuration is
read. Blank lines and lines that begin with # are left out.

A line that is no http or https URL is told on standard error with its number,
and the command ends with 1 after the rest.`,
		Example: `  abide shard -i 17 -n 100 urls.txt
  zcat urls.gz | abide shard -n 100 --owner | sort -n`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(cmd, args) },
	}
	cmd.Flags().IntVarP(&x.index, "index", "i", 0, "which `crawler`, from 0 on")
	cmd.Flags().IntVarP(&x.of, "of", "n", 0, "how many `crawlers` there are")
	cmd.Flags().StringVar(&x.by, "by", "url", "what tells parts apart: the `url`, or its host alone")
	cmd.Flags().BoolVar(&x.invert, "invert", false, "print the URLs of all others instead")
	cmd.Flags().BoolVar(&x.owner, "owner", false, "print the owner and a tab before each URL; without -i, of all URLs")
	return cmd
}

// shardCall is one call of the command.
type shardCall struct {
	index, of     int
	by            string
	invert, owner bool

	all bool // print all URLs, whatever their owner
}

func (x *shardCall) run(cmd *cobra.Command, args []string) error {
	if err := x.resolve(cmd); err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	failed := false
	for _, name := range args {
		bad, err := eachLine(cmd, name, shard.Longest, x.line)
		if err != nil {
			return err
		}
		failed = failed || bad
	}
	if failed {
		return &exit{code: exitFailed}
	}
	return nil
}

// resolve finds the index and the number of crawlers, from the command line or else from the
// configuration.
func (x *shardCall) resolve(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	x.all = x.owner && !given("index")
	if x.all && x.invert {
		return usage(errors.New("--invert needs -i: which crawler's URLs to leave out"))
	}
	if !given("index") && !x.all || !given("of") || !given("by") {
		p, err := loadPolicy(cmd)
		if err != nil {
			return err
		}
		if !given("by") {
			x.by = cmp.Or(p.Shard.By, "url")
		}
		if !given("of") {
			x.of = p.Shard.Of
		}
		if !given("index") {
			x.index = p.Shard.Index
		}
		if !given("index") && !x.all && p.Shard.Of == 0 {
			return usage(errors.New("which crawler? write -i INDEX, from 0 on, or shard in the configuration"))
		}
	}
	switch {
	case x.of < 1 && given("of"):
		return usage(fmt.Errorf("-n: %d crawlers are none", x.of))
	case x.of < 1:
		return usage(errors.New("of how many crawlers? write -n OF, or shard in the configuration"))
	case !x.all && (x.index < 0 || x.index >= x.of):
		return usage(fmt.Errorf("-i: %d is not one of %d crawlers, which are 0 to %d", x.index, x.of, x.of-1))
	case x.by != string(shard.URL) && x.by != string(shard.Host):
		return usage(fmt.Errorf("--by: %q is neither url nor host", shorten.To(61, x.by)))
	}
	return nil
}

// line returns the line of a URL if it is selected.
func (x *shardCall) line(line []byte, wrong error) ([]byte, error) {
	text := bytes.TrimSpace(line)
	if wrong != nil || len(text) == 0 || text[0] == '#' {
		return nil, wrong
	}
	key, err := shard.Key(string(text), shard.By(x.by))
	if err != nil {
		return nil, err
	}
	owner := shard.Owner(key, x.of)
	switch {
	case !x.all && (owner == x.index) == x.invert:
		return nil, nil
	case x.owner:
		return fmt.Appendf(nil, "%d\t%s\n", owner, text), nil
	}
	return append(text, '\n'), nil
}
