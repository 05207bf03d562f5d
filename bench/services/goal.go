package main

// goal is what abide has to reach at a service. Zero values are the goals of its kind.
type goal struct {
	ratio float64 // time ÷ ideal
	early int     // refusals in the first half
}
