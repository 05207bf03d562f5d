package page

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// luminance is that of a colour such as "#0b63a5", from 0 to 1.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) == 4 {
		colour = "#" + strings.Repeat(colour[1:2], 2) + strings.Repeat(colour[2:3], 2) + strings.Repeat(colour[3:4], 2)
	}
	var parts [3]uint8
	if _, err := fmt.Sscanf(colour, "#%2x%2x%2x", &parts[0], &parts[1], &parts[2]); err != nil {
		t.Fatal(colour, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		x := float64(parts[i]) / 255
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		sum += weight * x
	}
	return sum
}

func TestTextHasContrastInLightAndDark(t *testing.T) {
	light, dark, _ := strings.Cut(string(Style), "@media (prefers-color-scheme: dark)")
	for name, text := range map[string]string{"light": light, "dark": dark} {
		colour := func(variable string) float64 {
			_, value, _ := strings.Cut(text, "--"+variable+": ")
			value, _, _ = strings.Cut(value, ";")
			return luminance(t, value)
		}
		for _, ground := range []string{"card", "ground"} {
			for _, one := range []string{"ink", "faint", "link", "good", "bad", "amber"} {
				a, b := colour(one), colour(ground)
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
					t.Errorf("%s: --%s on --%s has a contrast of %.2f", name, one, ground, ratio)
				}
			}
		}
	}
}

// TestThePageHasFewSizesOfText: each is a variable.
func TestThePageHasFewSizesOfText(t *testing.T) {
	sizes := map[string]bool{}
	for _, one := range regexp.MustCompile(`font(?:-size)?: ([^;]+);`).FindAllStringSubmatch(string(Style), -1) {
		size := regexp.MustCompile(`^var\(--(\w+)\)`).FindStringSubmatch(one[1])
		if size == nil && one[1] != "inherit" {
			t.Errorf("%s is no variable", one[0])
		} else if size != nil {
			sizes[size[1]] = true
		}
	}
	if len(sizes) != 5 {
		t.Errorf("the sizes are %v", sizes)
	}
}
