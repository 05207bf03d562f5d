//go:build man

package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// init writes the man pages of all commands into a directory and ends. The tag keeps the writer of
// man pages out of the program:
//
//	go run -tags man ./cmd/abide DIRECTORY
func init() {
	// The defaults of whoever builds are nobody's.
	os.Unsetenv("XDG_STATE_HOME")
	os.Setenv("HOME", "/home/you")
	root := rootCommand()
	root.DisableAutoGenTag = true // the tag has the date
	keepTables(root)
	header := &doc.GenManHeader{Section: "1", Source: "abide", Manual: "abide"}
	if err := doc.GenManTree(root, header, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(0)
}

var indented = regexp.MustCompile(`(?m)^ +\S`)

// keepTables makes the indented lines of help texts code in Markdown, so that they stay lines.
func keepTables(c *cobra.Command) {
	c.Long = indented.ReplaceAllString(c.Long, "  $0")
	for _, inner := range c.Commands() {
		keepTables(inner)
	}
}
