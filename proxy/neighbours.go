package proxy

import (
	"context"

	"github.com/abide-proxy/abide/store"
)

// neighbours is a store of this machine that several processes may use: each of them
// has what it needs of a budget, and one alone has all.
type neighbours interface {
	// Several tells whether other processes use it now.
	Several() bool
}

// count finds out which processes use the file of this machine.
func (d *desk) count(ctx context.Context) {
	if !d.local() {
		return
	}
	within, cancel := context.WithTimeout(ctx, patienceOfPulse)
	defer cancel()
	p, err := d.store.Pulse(within, store.Member{ID: d.instance, Name: d.name})
	if err != nil {
		return // the next exchange says what is wrong
	}
	d.members.Store(&p)
	if several := p.Members > 1; d.several.Swap(several) != several && several {
		d.log.Infof("%d processes use the state file, and keep one budget together", p.Members)
	}
}

// local tells whether the store is one of this machine that several processes may use.
func (d *desk) local() bool {
	_, ok := d.store.(neighbours)
	return ok && !d.shared
}

// together tells whether others use what this process knows of budgets.
func (d *desk) together() bool { return d.shared || d.several.Load() }
