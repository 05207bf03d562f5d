package top

import (
	"context"
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// askPause asks for the reason and the length of a pause.
func (s *screen) askPause(site string) {
	form := tview.NewForm().AddInputField("Reason", "", 0, nil, nil).AddInputField("For (2h; empty: until resumed)", "", 12, nil, nil)
	text := func(i int) string { return strings.TrimSpace(form.GetFormItem(i).(*tview.InputField).GetText()) }
	s.openForm(form, "Pause "+site+"?", "Pause", func() {
		reason, length := text(0), text(1)
		s.send(change{"pausing " + site, site + " is paused", func(ctx context.Context) error { return s.poller.from.Pause(ctx, site, reason, length) }})
	})
}

// askResume asks whether to resume a site.
func (s *screen) askResume(site string) {
	s.openForm(tview.NewForm(), "Resume "+site+"?", "Resume", func() {
		s.send(change{"resuming " + site, site + " is resumed", func(ctx context.Context) error { return s.poller.from.Resume(ctx, site) }})
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
	form.SetBorder(true).SetTitle(" " + tview.Escape(cut(clean(title), max(s.width-6, 1))) + " ")
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
