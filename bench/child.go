package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
	*process
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
	p := newProcess(ctx, role, cores, self, role)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	c := &child{process: p, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	if orders != nil {
		if err := c.ask(orders, address, 10*time.Second); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

// ask puts a question and waits for its answer. A child that does not answer
// within patience is ended: nothing that it says later could be trusted.
func (c *child) ask(question, answer any, patience time.Duration) error {
	late := time.AfterFunc(patience, c.cancel)
	defer late.Stop()
	if err := c.in.Encode(question); err != nil {
		return fmt.Errorf("asking %s: %w%s", c.name, err, c.said)
	}
	if err := c.out.Decode(answer); err != nil {
		return fmt.Errorf("waiting for %s: %w%s", c.name, err, c.said)
	}
	return nil
}
