package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/admin/plan"
)

// readAccessLog reads the access log of a file, which gzip may have compressed; - is
// standard input.
func readAccessLog(cmd *cobra.Command, name string) (*plan.Log, error) {
	in := cmd.InOrStdin()
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, usage(fmt.Errorf("--from-log: %w", err))
		}
		defer file.Close()
		in = file
	}
	text, err := unzipped(in)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	log, err := plan.ReadLog(cmd.Context(), text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return log, nil
}

// unzipped is a text that gzip may have compressed.
func unzipped(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return b, nil
	}
	return gzip.NewReader(b)
}
