import Glibc
import Testing

@testable import MartletServer

/// The installed service, as whom root checks its configuration.
@Suite struct ServiceUnitTests {
    private func read(_ text: String) -> ServiceUnit? { ServiceUnit(name: "martlet.service", lines: text.split(separator: "\n")) }

    @Test func `a unit says as whom it runs, and with which configuration`() throws {
        let unit = try #require(
            read(
                "[Service]\nType=notify\nExecStart=/usr/bin/martlet -c "
                    + "/etc/martlet/martlet.conf\nUser=martlet\nGroup=martlet\nProtectHome=yes\n"
            ))
        #expect(unit.userName == "martlet")
        #expect(unit.configurationFile == "/etc/martlet/martlet.conf")
        #expect(unit.hidesHomes)
    }

    @Test func `a line of a drop-in counts in place of the unit's, and a comment does not`() throws {
        let text = """
            ExecStart=/usr/bin/martlet -c /a
            User=martlet
            #User=x
            ;User=y
            ExecStart=
            ExecStart=/usr/bin/martlet --config-file /b -v
            User=
            """
        let unit = try #require(read(text))
        #expect(unit.userName == "root")
        #expect(unit.configurationFile == "/b")
        #expect(!unit.hidesHomes)
    }

    @Test func `a service without a configuration is none that root could check`() {
        #expect(read("ExecStart=/usr/bin/martlet\n") == nil)
        #expect(read("ExecStart=/usr/bin/martlet -c\n") == nil)
        #expect(read("User=martlet\n") == nil)
    }

    @Test func `a service that sees no homes is blind for what is in them`() throws {
        let unit = try #require(read("ExecStart=/usr/bin/martlet -c /a\nUser=martlet\nProtectHome=true\n"))
        #expect(unit.blindness(for: "/home/anna/server.key")?.contains("ProtectHome=yes") == true)
        #expect(unit.blindness(for: "/etc/martlet/server.key") == nil)
    }

    @Test func `the service is found by the file that it runs with`() throws {
        let directory = try TemporaryDirectory()
        let place = directory.file("etc")
        #expect(mkdir(place, 0o755) == 0)
        defer { rmdir(place) }
        for part in ["systemd", "systemd/system"] { #expect(mkdir("\(place)/\(part)", 0o755) == 0) }
        defer { for part in ["systemd/system", "systemd"] { rmdir("\(place)/\(part)") } }
        let unit = "\(place)/systemd/system/martlet.service"
        try write("ExecStart=/usr/bin/martlet -c \(directory.file("martlet.conf"))\nUser=nobody\n", to: unit)
        defer { unlink(unit) }
        try write("", to: directory.file("martlet.conf"))
        try write("", to: directory.file("draft.conf"))
        #expect(ServiceUnit.running(directory.file("martlet.conf"), root: directory.path)?.userName == "nobody")
        #expect(ServiceUnit.running(directory.file("draft.conf"), root: directory.path) == nil)
        #expect(ServiceUnit.running(directory.file("none.conf"), root: directory.path) == nil)
    }

    private func write(_ text: String, to path: String) throws {
        let file = try #require(fopen(path, "w"))
        fputs(text, file)
        fclose(file)
    }
}
