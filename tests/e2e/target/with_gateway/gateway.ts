export function baseUrl(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env["PAPERCLIP_E2E_GATEWAY_BASE_URL"] ?? process.env.PAPERCLIP_E2E_GATEWAY_BASE_URL;
}
