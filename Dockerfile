# A static binary and the certificates it trusts; nothing else is in the image.
FROM golang:1.26.11 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/abide ./cmd/abide
# 65532 is the user that distroless images call nonroot.
# /data has the key of the CA. /trust is for what may be shared with crawlers; a new
# volume that is mounted there belongs to the same user.
RUN mkdir -m 0700 /out/data && \
    mkdir -m 0755 /out/trust && \
    echo 'abide:x:65532:65532:abide:/data:/abide' > /out/passwd

FROM scratch
ARG VERSION=devel
LABEL org.opencontainers.image.title="abide" \
      org.opencontainers.image.description="An HTTP forward proxy that keeps crawlers within rate limits" \
      org.opencontainers.image.url="https://github.com/abide-proxy/abide" \
      org.opencontainers.image.source="https://github.com/abide-proxy/abide" \
      org.opencontainers.image.documentation="https://github.com/abide-proxy/abide/blob/main/docs/operating.md#containers" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /etc/passwd
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/trust /trust
COPY --from=build /out/abide /abide

# 3128 is the proxy. 3129 is the proxy for crawlers that trust abide's CA: all their
# https is opened, so that its limits are kept.
# The admin listener stays inside the container, where the health check asks it.
# To reach it from outside set ABIDE_ADMIN=0.0.0.0:9128 and ABIDE_ADMIN_TOKEN, or
# ABIDE_ADMIN_TOKEN_FILE. The configuration is /etc/abide/abide.yaml, or the document
# in ABIDE_CONFIG_YAML.
ENV HOME=/data \
    ABIDE_LISTEN=0.0.0.0:3128 \
    ABIDE_ADMIN=127.0.0.1:9128 \
    ABIDE_DATA=/data
USER 65532:65532
VOLUME /data
EXPOSE 3128 3129 9128
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/abide", "healthcheck"]
ENTRYPOINT ["/abide"]
CMD ["serve"]
