package top

import (
	"github.com/gdamore/tcell/v2"
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
	switch {
	case e.Key() == tcell.KeyEscape || e.Key() == tcell.KeyBackspace || e.Key() == tcell.KeyBackspace2:
		s.back()
	case e.Rune() == 'q':
		s.quit()
	case e.Rune() == '?':
		s.help()
	case s.model.about != (subject{}):
		return e
	case e.Key() == tcell.KeyEnter:
		s.lookAtHolds()
	case !s.siteKey(e.Rune()):
		return e
	}
	s.show()
	return nil
}

// siteKey handles a key of the table of sites. false: the key means nothing there.
func (s *screen) siteKey(r rune) bool {
	m := s.model
	switch {
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
		return false
	}
	return true
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

// site is the selected site, false without one.
func (s *screen) site() (row, bool) {
	at := s.model.place(s.rows)
	if at < 0 {
		return row{}, false
	}
	return s.rows[at], true
}

func (s *screen) lookAtHolds() {
	if r, ok := s.site(); ok {
		s.model.selected = r.site
		s.lookAt(subject{site: r.site})
	}
}

// pauseOrResume asks whether to resume a site that is paused, or how to pause another.
func (s *screen) pauseOrResume() {
	r, ok := s.site()
	switch {
	case !ok:
	case r.paused:
		s.askResume(r.site)
	default:
		s.askPause(r.site)
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
