package ledger

// numbering numbers the windows of a limit alike in all instances of a fleet. The zero
// value has no number.
type numbering struct {
	last, end int64 // number of the newest window whose end was announced, and that end
}

// present is the number of the present window: that of the last window with an announced
// end, plus the windows since; 0: unknown.
func (n *numbering) present(v int64, w *window) int64 {
	if w.reset > 0 {
		n.announce(w.reset, w.period)
	}
	switch end := w.end(); {
	case n.last == 0:
		return 0
	case w.reset > 0 && v < end:
		return n.last
	case w.reset == 0 && v < end: // begun by our clock
		return n.last + max((w.opened-n.end)/w.period+1, 1)
	}
	return n.last + max((v-n.end)/w.period+1, 1)
}

// isCurrent tells whether the newest number belongs to the window whose end was announced
// to this instance. Other instances may have sent the number of the next window already.
func (n *numbering) isCurrent(v int64, w *window) bool {
	by := n.end - w.reset
	return w.reset > 0 && v < w.end() && by <= w.period/2 && -by <= w.period/2
}

// announce takes the end of a window.
func (n *numbering) announce(reset, period int64) {
	switch by := reset - n.end; {
	case n.last == 0:
		// Instances know the length of a window only roughly. The step is the same for all
		// of them, and grows no faster than the number of windows.
		step := 3 * second / 2
		for step < period {
			step *= 4
		}
		n.last, n.end = (reset+step/2)/step, reset
	case by > period/2:
		n.last, n.end = n.last+(by+period/2)/period, reset
	}
}

// agree takes another instance's number of the window with a reset. Of two numbers for one
// window the larger one is used.
func (n *numbering) agree(number, reset, period int64) {
	if number > max(n.last, 0) && reset > n.end-period/2 {
		n.last, n.end = number, reset
	}
}
