package top

// gap is the space between columns.
const gap = 1

// placed is a column with its width.
type placed struct {
	column
	number int // in columns
	width  int
}

// layout lists the columns that fit into a terminal, and their widths. used is the width
// of the texts in each column.
func layout(width int, used []int) []placed {
	shown, left := fitting(width)
	for rank := range columns { // the most important column may grow first
		for i := range shown {
			p := &shown[i]
			if p.rank != rank {
				continue
			}
			more := min(max(used[p.number], len(p.title))-p.width, p.most-p.width, left)
			if more > 0 {
				p.width, left = p.width+more, left-more
			}
		}
	}
	return shown
}

// fitting is the columns of a terminal, in their order and as narrow as they can be, and the
// width that is left. A column without room leaves out those that are less important, too.
func fitting(width int) (shown []placed, left int) {
	last, left := 0, width-columns[0].least
	for rank := 1; rank < len(columns); rank++ {
		need := gap
		for _, c := range columns {
			if c.rank == rank {
				need += c.least
			}
		}
		if need > left {
			break
		}
		last, left = rank, left-need
	}
	for i, c := range columns {
		if c.rank <= last {
			shown = append(shown, placed{c, i, c.least})
		}
	}
	if left < 0 { // not even the first has room
		shown[0].width, left = max(width, 1), 0
	}
	return shown, left
}

// squeeze makes the widest columns narrower until all have room, but none narrower than least.
func squeeze(widths []int, room, least int) {
	sum := gap * (len(widths) - 1)
	for _, one := range widths {
		sum += one
	}
	for ; sum > room; sum-- {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}
