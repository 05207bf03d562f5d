package page

import (
	"math"
	"strconv"
)

// spark is a line over the last minutes, in a box of Width times sparkHeight.
type spark struct {
	Line, Area string // paths, "" where there is nothing
	Width      int
	Most       float64
}

// sparkHeight is the height of the highest point.
const sparkHeight = 20

// sparkOf is the line through points, or through the means of every few of them.
func sparkOf(points []float32, every int) spark {
	var s spark
	n := len(points) / every
	if n < 2 {
		return s
	}
	means := make([]float64, n)
	for i := range means {
		for _, one := range points[i*every : (i+1)*every] {
			means[i] += float64(one) / float64(every)
		}
		s.Most = max(s.Most, means[i])
	}
	s.Width = n - 1
	y := func(i int) int {
		if s.Most <= 0 {
			return sparkHeight
		}
		return sparkHeight - int(math.Ceil(means[i]/s.Most*sparkHeight))
	}
	path := append([]byte("M0 "), strconv.Itoa(y(0))...)
	level := 0 // steps that are as high as the one before
	for i := 1; i < n; i++ {
		if d := y(i) - y(i-1); d == 0 {
			level++
		} else {
			path = appendLevel(path, level)
			level = 0
			path = append(path, "l1 "...)
			path = strconv.AppendInt(path, int64(d), 10)
		}
	}
	s.Line = string(appendLevel(path, level))
	s.Area = s.Line + "V" + strconv.Itoa(sparkHeight) + "H0z"
	return s
}

// appendLevel adds a level line to a path.
func appendLevel(path []byte, n int) []byte {
	if n == 0 {
		return path
	}
	return strconv.AppendInt(append(path, 'h'), int64(n), 10)
}
