package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/abide-proxy/abide/status"
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
	filling bool          // the selection that changes is not the user's
	rows    []status.Site // of the table of sites
	pages   *tview.Pages
	header  *tview.Table
	table   *tview.Table
	footer  *tview.Table
	filter  *tview.InputField
}

// Run shows the table until the user quits or ctx is done. It fails if the abide does not
// answer at the beginning, and waits for an abide that does not answer later.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newScreen(o, func() { cancel(nil) })
	first, err := s.poller.take(ctx)
	if err != nil {
		return err
	}
	s.model.take(first, nil)
	on := o.Screen
	if on == nil {
		if on, err = tcell.NewScreen(); err != nil {
			return unusable(err)
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
	err = s.app.Run()
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
		pages: tview.NewPages(), header: tview.NewTable(), table: tview.NewTable(), footer: tview.NewTable(), filter: tview.NewInputField(),
	}
	s.poller.tell = func(item sample, err error) { s.app.QueueUpdateDraw(func() { s.take(item, err) }) }
	s.poller.done = func(c change, err error) { s.app.QueueUpdateDraw(func() { s.changed(c, err) }) }
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
	s.model.take(item, err)
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

func unusable(err error) error {
	return fmt.Errorf("this terminal cannot show the table (%w); --once prints it", err)
}

// Init implements tcell.Screen.
func (t *terminal) Init() error {
	err := t.Screen.Init()
	if err != nil {
		t.failed(unusable(err))
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

// show fills in everything from the model.
func (s *screen) show() {
	for y, line := range s.model.header() {
		setLine(s.header, y, line)
	}
	s.showFooter()
	switch about := s.model.about; {
	case about == (subject{}):
		s.showSites()
	case about != s.model.now.about:
		s.fill(&list{}) // the sample is about something else
	case about.tokens:
		s.fill(s.model.tokenList())
	default:
		s.fill(s.model.holdList())
	}
}

// setLine sets a line, which is cut where the terminal ends.
func setLine(lines *tview.Table, y int, text string) {
	lines.SetCell(y, 0, tview.NewTableCell(tview.Escape(text)))
}

func (s *screen) showFooter() { setLine(s.footer, 0, s.model.footer()) }

// showSites fills the table with the sites. The selected site stays selected wherever it goes.
func (s *screen) showSites() {
	s.rows = s.model.rows()
	s.fill(s.model.siteList(s.rows, s.width))
	if at := s.model.place(s.rows); at >= 0 {
		s.selectRow(at + 1)
	}
}

// selectRow selects a row of the table for the user.
func (s *screen) selectRow(y int) {
	s.filling = true
	s.table.Select(y, 0)
	s.filling = false
}

// fill fills the table. Without rows none can be selected: tview would look for one forever.
func (s *screen) fill(l *list) {
	s.table.Clear().SetSelectable(len(l.rows) > 0, false)
	if y, _ := s.table.GetSelection(); y > len(l.rows) {
		s.selectRow(len(l.rows))
	}
	l.draw(s.table, s.width, s.color)
}

// selected remembers which site the user has selected.
func (s *screen) selected(y, _ int) {
	if !s.filling && s.model.about == (subject{}) && y >= 1 && y <= len(s.rows) {
		s.model.selected = s.rows[y-1].Name
	}
}

// Print writes the table once, for a pipe or a file.
func Print(ctx context.Context, w io.Writer, from Source, address string) error {
	m := newModel(address)
	s, err := newPoller(from, 0).take(ctx)
	if err != nil {
		return err
	}
	m.take(s, nil)
	_, err = io.WriteString(w, m.text())
	return err
}

// text is the header and all columns.
func (m *model) text() string {
	header := m.header()
	lines := slices.DeleteFunc(header[:], func(line string) bool { return line == "" })
	return strings.Join(lines, "\n") + "\n\n" + m.siteList(m.rows(), 0).text()
}
