// Package browser holds no code: its tests look at the page of a built abide in a real Chromium,
// and use its forms. They are in this module because only they need a library for browsers.
package browser
