package top

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/abide-proxy/abide/status"
)

// anyKey is called with each key, before the part of the screen that has the focus.
func (s *screen) anyKey(e *tcell.EventKey) *tcell.EventKey {
	s.model.note = ""
	s.showFooter()
	if e.Key() == tcell.KeyCtrlC {
		s.quit()
		return nil
	}
	return e
}

// key handles a key of the table.
func (s *screen) key(e *tcell.EventKey) *tcell.EventKey {
	m, r := s.model, e.Rune()
	switch {
	case e.Key() == tcell.KeyEscape || e.Key() == tcell.KeyBackspace || e.Key() == tcell.KeyBackspace2:
		s.back()
	case r == 'q':
		s.quit()
	case r == '?':
		s.help()
	case m.about != (subject{}): // the others are for the table of sites
		return e
	case e.Key() == tcell.KeyEnter:
		if selected := s.site(); selected != nil {
			m.selected = selected.Name
			s.lookAt(subject{site: selected.Name})
		}
	case r == 's':
		m.choose(m.sortBy + 1)
	case r >= '1' && int(r-'1') < len(columns):
		m.choose(int(r - '1'))
	case r == 'r':
		m.reverse = !m.reverse
	case r == '/':
		s.app.SetFocus(s.filter)
	case r == 'p':
		s.pauseOrResume()
	case r == 't':
		s.lookAt(subject{tokens: true})
	default:
		return e
	}
	s.show()
	return nil
}

// lookAt shows something else in the table.
func (s *screen) lookAt(about subject) {
	s.model.about = about
	s.table.ScrollToBeginning() // of its columns, too
	s.poller.show(about)
}

// back shows the sites again; where they are shown, all of them.
func (s *screen) back() {
	if s.model.about == (subject{}) {
		s.filter.SetText("")
		return
	}
	s.lookAt(subject{})
}

// filtered ends the editing of the filter.
func (s *screen) filtered(key tcell.Key) {
	if key == tcell.KeyEscape {
		s.filter.SetText("")
	}
	s.app.SetFocus(s.table)
	s.show()
}

// site is the selected site, nil without one.
func (s *screen) site() *status.Site {
	if at := s.model.place(s.rows); at >= 0 {
		return &s.rows[at]
	}
	return nil
}

// pauseOrResume asks whether to resume a site that is paused, or how to pause another.
func (s *screen) pauseOrResume() {
	selected := s.site()
	switch {
	case selected == nil:
	case selected.Paused != nil:
		name := selected.Name
		s.openForm(tview.NewForm(), "Resume "+name+"?", "Resume", func() {
			s.send(change{"resuming " + name, name + " is resumed", name, "resume", nil})
		})
	default:
		s.askPause(selected.Name)
	}
}

// send has the abide make a change, and says so.
func (s *screen) send(c change) {
	s.model.note = c.doing
	if !s.poller.send(c) {
		s.model.note = "too many changes wait for an answer; try again later"
	}
	s.show()
}

// changed says what became of a change.
func (s *screen) changed(c change, err error) {
	s.model.note = c.done
	if err != nil {
		s.model.note = c.doing + " failed: " + err.Error()
	}
	s.show()
}

// askPause asks for the reason and the length of a pause.
func (s *screen) askPause(site string) {
	form := tview.NewForm().AddInputField("Reason", "", 0, nil, nil).AddInputField("For (2h; empty: until resumed)", "", 12, nil, nil)
	text := func(i int) string { return strings.TrimSpace(form.GetFormItem(i).(*tview.InputField).GetText()) }
	s.openForm(form, "Pause "+site+"?", "Pause", func() {
		reason, length := text(0), text(1)
		s.send(change{"pausing " + site, site + " is paused", site, "pause", status.PauseAsk{Reason: reason, For: length}})
	})
}

// openForm shows a form with one button that does something and one that does nothing.
func (s *screen) openForm(form *tview.Form, title, button string, do func()) {
	form.AddButton(button, func() {
		s.closeDialog()
		do()
	})
	form.AddButton("Cancel", s.closeDialog).SetCancelFunc(s.closeDialog)
	form.SetButtonStyle(tcell.StyleDefault).SetButtonActivatedStyle(tcell.StyleDefault.Reverse(true))
	form.SetFieldStyle(tcell.StyleDefault.Underline(true))
	form.SetBorder(true).SetTitle(" " + tview.Escape(status.Clean(title)) + " ")
	s.openDialog(form, 2*form.GetFormItemCount()+5)
}

// help shows the keys and the columns.
func (s *screen) help() {
	var b strings.Builder
	b.WriteString("up, down  select a site     s    sort by next column  r  reverse order\n")
	b.WriteString("1 to 9    sort by a column  /    filter by name       p  pause or resume\n")
	b.WriteString("enter     what waits there  t    tokens               ?  this help\n")
	b.WriteString("esc       back              q    quit\n\n")
	for i, c := range columns {
		fmt.Fprintf(&b, "%d  %-11s %s\n", i+1, c.title, c.help)
	}
	text := tview.NewTextView().SetText(strings.TrimSuffix(b.String(), "\n")).SetWrap(false)
	text.SetInputCapture(func(*tcell.EventKey) *tcell.EventKey {
		s.closeDialog()
		return nil
	})
	text.SetBorder(true).SetTitle(" Keys and columns; any key closes this ")
	s.openDialog(text, len(columns)+7)
}

// openDialog shows a dialog above the table.
func (s *screen) openDialog(dialog tview.Primitive, height int) {
	middle := tview.NewFlex().SetDirection(tview.FlexRow).AddItem(nil, 0, 1, false).AddItem(dialog, height, 0, true).AddItem(nil, 0, 1, false)
	s.pages.AddPage("dialog", middle, true, true)
	s.app.SetFocus(dialog)
}

func (s *screen) closeDialog() {
	s.pages.RemovePage("dialog")
	s.app.SetFocus(s.table)
}
