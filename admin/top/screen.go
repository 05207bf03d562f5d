package top

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// Options are the abide that is shown, and how it is shown.
type Options struct {
	Source Source
	// Address is that of the abide's admin listener, for the header.
	Address string
	// Every is the time between two refreshes.
	Every time.Duration
	// Color says that the user wants colours.
	Color bool
	// Screen is the screen on which the table is drawn; nil: the terminal of the process.
	Screen tcell.Screen
}

// screen draws the table. All of it but the poller belongs to the loop of app.
type screen struct {
	app    *tview.Application
	poller *poller
	model  *model
	quit   func()
	color  bool

	width   int
	filling bool  // the selection that changes is not the user's
	rows    []row // of the table of sites
	pages   *tview.Pages
	header  *tview.TextView
	table   *tview.Table
	footer  *tview.TextView
	filter  *tview.InputField
}

// Run shows the table until the user quits or ctx is done. It fails if the abide does not
// answer at the beginning, and waits for an abide that does not answer later.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newScreen(o, func() { cancel(nil) })
	if err := s.start(ctx); err != nil {
		return err
	}
	on := o.Screen
	if on == nil {
		var err error
		if on, err = newTerminal(); err != nil {
			return err
		}
	}
	s.app.SetScreen(&terminal{on, cancel})
	if err := failure(ctx); err != nil {
		return err
	}
	var polling, stopping sync.WaitGroup
	polling.Go(func() { s.poll(ctx) })
	stopping.Go(func() {
		<-ctx.Done()
		polling.Wait() // it waits for the loop
		s.app.QueueUpdate(s.app.Stop)
	})
	err := s.app.Run()
	cancel(err)
	stopping.Wait()
	return failure(ctx)
}

// failure is why ctx is done, nil if nothing failed.
func failure(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// start takes the first sample.
func (s *screen) start(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first, err := s.poller.take(within, subject{})
	if err == nil {
		s.model.take(first)
	}
	return err
}

// poll refreshes the table until ctx is done. A panic goes on in the loop, which restores the
// terminal before the process ends.
func (s *screen) poll(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			s.app.QueueUpdate(func() { panic(fmt.Sprintf("%v\n%s", p, stack)) })
		}
	}()
	s.poller.run(ctx)
}

func newScreen(o Options, quit func()) *screen {
	plainTheme()
	s := &screen{
		app: tview.NewApplication(), poller: newPoller(o.Source, o.Every), model: newModel(o.Address), quit: quit, color: o.Color,
		pages: tview.NewPages(), header: tview.NewTextView(), table: tview.NewTable(), footer: tview.NewTextView(), filter: tview.NewInputField(),
	}
	s.poller.tell = func(item sample, err error) { s.app.QueueUpdateDraw(func() { s.take(item, err) }) }
	s.poller.done = func(c change, err error) { s.app.QueueUpdateDraw(func() { s.changed(c, err) }) }
	s.header.SetWrap(false)
	s.footer.SetWrap(false)
	s.table.SetSelectable(true, false).SetFixed(1, 0).SetSelectedStyle(tcell.StyleDefault.Reverse(true))
	s.table.SetSelectionChangedFunc(s.selected).SetInputCapture(s.key)
	s.filter.SetLabel("filter: ").SetDoneFunc(s.filtered).SetChangedFunc(func(text string) {
		s.model.filter = text
		s.show()
	})
	s.pages.AddPage("table", s.parts(), true, true)
	s.app.SetRoot(s.pages, true).SetFocus(s.table)
	s.app.SetInputCapture(s.anyKey).SetBeforeDrawFunc(s.resize)
	return s
}

// parts are the parts of the screen, from the top.
func (s *screen) parts() *tview.Flex {
	below := tview.NewPages().AddPage("keys", s.footer, true, true).AddPage("filter", s.filter, true, false)
	s.filter.SetBlurFunc(func() { below.SwitchToPage("keys") })
	s.filter.SetFocusFunc(func() { below.SwitchToPage("filter") })
	return tview.NewFlex().SetDirection(tview.FlexRow).
		AddItem(s.header, headerLines, 0, false).
		AddItem(s.table, 0, 1, true).
		AddItem(below, 1, 0, false)
}

// plainTheme has tview use the colours of the terminal.
func plainTheme() {
	const plain = tcell.ColorDefault
	tview.Styles = tview.Theme{
		PrimitiveBackgroundColor: plain, ContrastBackgroundColor: plain, MoreContrastBackgroundColor: plain,
		BorderColor: plain, TitleColor: plain, GraphicsColor: plain, PrimaryTextColor: plain, SecondaryTextColor: plain,
		TertiaryTextColor: plain, InverseTextColor: plain, ContrastSecondaryTextColor: plain,
	}
}

// take shows a sample, or why there is none.
func (s *screen) take(item sample, err error) {
	if err != nil {
		s.model.failed = err
	} else {
		s.model.take(item)
	}
	s.show()
}

// resize lays the table out anew when the width of the terminal has changed.
func (s *screen) resize(on tcell.Screen) bool {
	if width, _ := on.Size(); width != s.width {
		s.width = width
		s.show()
	}
	return false
}

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
