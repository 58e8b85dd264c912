import Administration
import BrokerModel
import Configuration
import HTTP
import Testing

@testable import MartletServer

@Suite struct MosquittoRoutesTests {
    private func text(_ response: HTTPResponse) -> String { String(decoding: response.bytes ?? [], as: UTF8.self) }

    @Test func `listeners are printed as cJSON prints them`() {
        var configuration = BrokerConfiguration()
        var unix = ListenerConfiguration(endpoint: .unixSocket(path: "/run/a\"b.sock"))
        unix.tls.certificateFile = "c"
        unix.tls.keyFile = "k"
        unix.tls.requiresCertificate = true
        var http = ListenerConfiguration(endpoint: .loopback(port: 9883))
        http.application = .httpAPI
        http.security.allowsAnonymous = true
        configuration.listeners = [unix, http]
        let response = MosquittoRoutes.listeners(configuration)
        #expect(
            text(response) == """
                {
                \t"listeners":\t[{
                \t\t\t"path":\t"/run/a\\"b.sock",
                \t\t\t"protocol":\t"mqtt",
                \t\t\t"tls":\ttrue,
                \t\t\t"mtls":\ttrue,
                \t\t\t"allow_anonymous":\tfalse
                \t\t}, {
                \t\t\t"port":\t9883,
                \t\t\t"protocol":\t"httpapi",
                \t\t\t"tls":\tfalse,
                \t\t\t"mtls":\tfalse,
                \t\t\t"allow_anonymous":\ttrue
                \t\t}]
                }
                """)
        #expect(response.fields["Access-Control-Allow-Origin"] == "*")
    }

    @Test func `the system tree has mosquitto's keys in its order`() {
        var before = ShardStatistics()
        before.clientsTotal = 9
        var maxima = SystemMaxima()
        maxima.record(before)
        var sum = ShardStatistics()
        sum.clientsTotal = 7
        sum.clientsConnected = 3
        let lines = text(MosquittoRoutes.systemTree(maxima.topics(of: sum), uptime: 5)).split(separator: "\n")
        #expect(lines.count == 27)
        #expect(
            Array(lines[..<5]) == [
                "{", "\t\"$SYS/broker/clients/total\":\t7,", "\t\"$SYS/broker/clients/maximum\":\t9,",
                "\t\"$SYS/broker/clients/disconnected\":\t4,", "\t\"$SYS/broker/clients/connected\":\t3,",
            ])
        #expect(Array(lines[25...]) == ["\t\"$SYS/broker/uptime\":\t5", "}"])
    }
}
