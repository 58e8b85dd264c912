// What node has without asking, from the packages that stand in for it in a browser.
export { Buffer } from 'buffer/'
export * as process from 'process/browser.js'
