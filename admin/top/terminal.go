package top

import (
	"fmt"

	"github.com/gdamore/tcell/v2"
)

// terminal is a screen that reports why it fails. Package tview drops an error of Init, and
// would end its loop at an error event while others still wait for the loop.
type terminal struct {
	tcell.Screen
	failed func(err error)
}

// newTerminal is the terminal of the process.
func newTerminal() (tcell.Screen, error) {
	s, err := tcell.NewScreen()
	if err != nil {
		return nil, fmt.Errorf("this terminal cannot show the table (%w); --once prints it", err)
	}
	return s, nil
}

// Init implements tcell.Screen.
func (t *terminal) Init() error {
	err := t.Screen.Init()
	if err != nil {
		t.failed(fmt.Errorf("this terminal cannot show the table (%w); --once prints it", err))
	}
	return err
}

// PollEvent implements tcell.Screen.
func (t *terminal) PollEvent() tcell.Event {
	event := t.Screen.PollEvent()
	if bad, ok := event.(*tcell.EventError); ok {
		t.failed(fmt.Errorf("the terminal fails: %w", bad))
		return tcell.NewEventInterrupt(nil)
	}
	return event
}
