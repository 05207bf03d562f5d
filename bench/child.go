package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// roles are what the bench's own binary does when it starts itself. Each reads
// JSON from its standard input, answers on its standard output, and ends when
// its input does, so none outlives the bench.
var roles = map[string]func(*json.Decoder, *json.Encoder) error{
	"origin":  originRole,
	"load":    loadRole,
	"goproxy": goproxyRole,
	"splice":  spliceRole,
}

// play runs a role to its end.
func play(role func(*json.Decoder, *json.Encoder) error) error {
	err := role(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// child is one of the bench's own processes, playing a role. It answers one
// question at a time and is for one goroutine.
type child struct {
	*process.Process
	in  *json.Encoder
	out *json.Decoder
}

// startChild starts the role on the given cores. orders, unless nil, is its
// first question and address where the answer to it goes.
func startChild(ctx context.Context, role, cores string, orders, address any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the bench's own binary: %w", err)
	}
	c := &child{Process: process.New(role, self, role).On(cores)}
	c.Prepare = func(cmd *exec.Cmd) error {
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		c.in, c.out = json.NewEncoder(in), json.NewDecoder(out)
		return err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	if orders != nil {
		if err := c.ask(orders, address, 10*time.Second); err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// ask puts a question and waits for its answer. A child that does not answer
// within patience is ended: nothing that it says later could be trusted.
func (c *child) ask(question, answer any, patience time.Duration) error {
	late := time.AfterFunc(patience, c.End)
	defer late.Stop()
	if err := c.in.Encode(question); err != nil {
		return fmt.Errorf("asking %s: %w%s", c.Name, err, c.Said)
	}
	if err := c.out.Decode(answer); err != nil {
		return fmt.Errorf("waiting for %s: %w%s", c.Name, err, c.Said)
	}
	return nil
}
