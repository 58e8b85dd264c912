import BrokerCore
import BrokerModel
import Configuration
import JSON
import JSONReader
import MQTTCodec
import ServerLoops

/// `$CONTROL/broker/v1`: which listeners and plug-ins there are, as mosquitto says it. `enable_control_api`
extension Server {
    /// The answer to a message of commands.
    func brokerAnswer(to message: ControlMessage) -> [UInt8] {
        var answers: [[UInt8]] = []
        func refuse(_ words: String, _ command: String = "Unknown command", _ correlation: String? = nil) {
            var writer = JSONWriter()
            writer.object { object in
                object.set("command", command)
                object.set("error", words)
                if let correlation { object.set("correlationData", correlation) }
            }
            answers.append(writer.bytes)
        }
        let value = try? JSONValue(reading: message.payload)
        if let list = value?.object?.any("commands")?.array {
            for item in list {
                guard answers.count < Limits.brokerCommandsMax else {
                    refuse("Too many commands")
                    break
                }
                guard let members = item.object else {
                    refuse("Command not an object")
                    break
                }
                guard let name = members.any("command")?.string else {
                    refuse("Missing command")
                    break
                }
                let correlation = members.any("correlationData")
                guard correlation == nil || correlation?.string != nil else {
                    refuse("Invalid correlationData data type.", name)
                    break
                }
                switch name.lowercased() {
                case "listlisteners": answers.append(told("listListeners", correlation?.string) { addListeners(to: &$0) })
                case "listplugins": answers.append(told("listPlugins", correlation?.string) { addPlugins(to: &$0) })
                default: refuse("Unknown command", name, correlation?.string)
                }
            }
        } else {
            refuse(value == nil ? "Payload not valid JSON" : "Invalid/missing commands")
        }
        var writer = JSONWriter()
        writer.object { object in object.array("responses") { list in for answer in answers { list.add(json: answer) } } }
        log.write(
            .information,
            "broker: \(message.clientIdentifier)/\(message.userName.map { "\($0)" } ?? "(null)") | \(answers.count) commands")
        return writer.bytes
    }

    private func told(_ command: String, _ correlation: String?, _ data: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.set("command", command)
            object.object("data", data)
            if let correlation { object.set("correlationData", correlation) }
        }
        return writer.bytes
    }

    private func addListeners(to data: inout JSONWriter) {
        data.array("listeners") { list in
            for listener in configuration.openListeners {
                list.object { object in
                    switch listener.endpoint {
                    case .tcp(let port, let host):
                        object.set("port", port)
                        object.set("protocol", Self.name(of: listener.application))
                        if let host { object.set("bind-address", host) }
                    case .loopback(let port):
                        object.set("port", port)
                        object.set("protocol", Self.name(of: listener.application))
                    case .unixSocket(let path):
                        object.set("port", 0)
                        object.set("protocol", Self.name(of: listener.application))
                        object.set("socket-path", path)
                    }
                    object.set("tls", listener.tls.isEnabled)
                }
            }
        }
    }

    private static func name(of application: ListenerProtocol) -> String {
        switch application {
        case .mqtt: "mqtt"
        case .webSockets: "mqtt+websockets"
        case .httpAPI: "httpapi"
        }
    }

    private func addPlugins(to data: inout JSONWriter) {
        let hasSecurity = !keepers.keepers.isEmpty
        data.array("plugins") { list in
            guard hasSecurity else { return }
            list.object { object in
                object.set("name", "dynamic-security")
                object.set("version", ProductVersion.text)
                object.array("control-endpoints") { $0.add(.string("\(Self.securityEndpoint)")) }
            }
        }
    }
}
