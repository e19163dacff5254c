// Package deploy holds what runs the program on other machines: its image, and the chart for Kubernetes. It contains only
// tests of them, and is a module of its own so that nobody else needs Kubernetes and Helm.
package deploy
