// Package chart draws bars over time as an SVG image that stands alone: light and dark, with a
// text for each bar.
package chart
