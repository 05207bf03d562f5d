package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain URL",
		Short: "Say which rule holds for a URL, and what follows from it",
		Long: `Explain says which rule of the configuration a request for this URL would meet,
whether it would be intercepted, which of its limits are about that path, and
what else holds for it. It asks nobody: no proxy has to run. A URL without a scheme is taken as https.`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, path, err := targetOf(args[0])
			if err != nil {
				return usage(err)
			}
			p, err := loadPolicy(cmd)
			if err != nil {
				return err
			}
			p.ExplainPath(cmd.OutOrStdout(), target, path)
			return nil
		},
	}
}

// targetOf is where a URL of the command line goes, and its escaped path. A user
// name and password in it stay out of what is printed.
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
