package main

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/admin"
	"github.com/abide-proxy/abide/proxy"
)

// permit waits until somebody else may send a request, for the operator's listener.
func (a *program) permit(ctx context.Context, ask admin.PermitAsk) (admin.Grant, error) {
	g, err := a.proxy.Permit(ctx, proxy.PermitAsk(ask))
	return admin.Grant(g), permitError(err)
}

// settle says what became of it.
func (a *program) settle(id string, end admin.PermitEnd) error {
	return permitError(a.proxy.SettlePermit(id, proxy.PermitEnd(end)))
}

func permitError(err error) error {
	var denied *proxy.Denied
	switch {
	case errors.As(err, &denied):
		own := admin.Denied(*denied)
		return &own
	case errors.Is(err, proxy.ErrNoPermit):
		return admin.Missing(err.Error())
	}
	return err
}
