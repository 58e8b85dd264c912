const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

export const number = value => value === null || value === undefined ? '–' : plain.format(value);
export const compact = value => value === null || value === undefined ? '–' : Math.abs(value) < 10000 ? plain.format(value) : short.format(value);

export function bytes(value) {
  if (value === null || value === undefined) return '–';
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(value) < 1024) return `${value < 10 && (unit !== 'B' || !Number.isInteger(value)) ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

export function seconds(value) {
  if (value === null || value === undefined) return '–';
  if (value === 0) return '0';
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${plain.format(value * 1000)} ms`;
  if (value < 10) return `${plain.format(value)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min`;
  if (value < 172800) return `${Math.floor(value / 3600)} h ${Math.floor(value % 3600 / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor(value % 86400 / 3600)} h`;
}

export const expiry = value => value === undefined || value === null ? '–' : value >= 4294967295 ? 'never' : value === 0 ? 'at disconnect' : seconds(value);
export const since = text => text ? seconds(Math.max(0, (Date.now() - Date.parse(text)) / 1000)) : '–';
// Swedish dates are those of ISO 8601; the zone is the reader's.
const zoned = { timeZoneName: 'short' };
export const clock = text => text ? new Date(text).toLocaleTimeString('sv-SE', zoned) : '–';
export const date = text => text ? new Date(text).toLocaleString('sv-SE', zoned) : '–';
export const now = () => clock(Date.now());
/// `1 message`, `2 messages`.
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;

/// What base64 holds, as text where it is text, else as hexadecimal bytes.
export function payload(base64) {
  const raw = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(raw);
  } catch {
    return Array.from(raw.subarray(0, 4096), byte => byte.toString(16).padStart(2, '0')).join(' ') + (raw.length > 4096 ? ' …' : '');
  }
}
