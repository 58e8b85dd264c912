// In place of modules that MQTT.js uses in node alone.
module.exports = {}
