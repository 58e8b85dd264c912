import Configuration
import Testing

@Suite struct GrammarTests {
    @Test func `comments, empty lines, blanks and tabs are passed over`() {
        let result = read("# a comment\n\n   \n\t\n  sys_interval\t 5  \n#max_keepalive 7\nuser  a  b \t\n")
        #expect(result.texts == [])
        #expect(result.configuration.general.systemTopicIntervalSeconds == 5)
        #expect(result.configuration.general.userName == "a  b")
        #expect(result.configuration.limits.keepAliveSecondsMax == nil)
    }

    @Test func `lines may end with CRLF, and the last one with nothing`() {
        let result = read("sys_interval 5\r\n\r\n#x\r\nuser me\r\nmax_keepalive 9")
        #expect(result.texts == [])
        #expect(result.configuration.general.userName == "me")
        #expect(result.configuration.limits.keepAliveSecondsMax == 9)
    }

    @Test func `a byte order mark is accepted with a warning`() {
        let result = read("\u{FEFF}sys_interval 5\n")
        #expect(
            result.texts == ["Warning: m.conf:1: the file begins with a byte order mark; mosquitto would not read its first line."])
        #expect(result.configuration.general.systemTopicIntervalSeconds == 5)
    }

    @Test func `an indented comment is warned of`() {
        #expect(
            read("  # x\n").texts == [
                "Warning: m.conf:1: a comment has to begin at the first character of its line; mosquitto would refuse this one."
            ])
    }

    @Test func `words after a number or boolean are ignored with a warning`() {
        let result = read("persistence true keep\n")
        #expect(result.texts == [#"Warning: m.conf:1: persistence: the rest of the line, "keep", is ignored."#])
        #expect(result.configuration.persistence.isEnabled)
    }

    @Test func `bytes that are no UTF-8 and control characters are refused`() {
        var files = MemoryFiles()
        files.files["m.conf"] = Array("user a".utf8) + [0xFF, 0x0A] + Array("user \u{7}\nuser \u{85}\nuser \u{0}\nuser ü\n".utf8)
        let result = ConfigurationReader(files: files, environment: [:]).read(path: "m.conf")
        #expect(
            result.texts == [
                "Error: m.conf:1: the line is not valid UTF-8; save the file in that encoding.",
                "Error: m.conf:2: the line holds the control character U+0007.",
                "Error: m.conf:3: the line holds the control character U+0085.",
                "Error: m.conf:4: the line holds the control character U+0000.",
            ])
        #expect(result.configuration.general.userName == "ü")
    }

    @Test func `values and lines are bounded`() {
        let long = String(repeating: "x", count: 65535)
        #expect(read("user \(long)").configuration.general.userName == long)
        #expect(read("user \(long)x").texts == ["Error: m.conf:1: user: the value is longer than 65535 bytes."])
        #expect(read("user \(long)\(long)").texts == ["Error: m.conf:1: the line is longer than 66559 bytes."])
    }

    @Test func `a file that is too large or not there is an error`() {
        let reader = ConfigurationReader(
            files: MemoryFiles(["big.conf": String(repeating: "#", count: 4 << 20) + "#"]), environment: [:])
        #expect(
            reader.read(path: "big.conf").texts == [
                "Error: big.conf: Unable to open config file big.conf. It is larger than 4194304 bytes."
            ])
        #expect(
            reader.read(path: "no.conf").texts == [
                "Error: no.conf: Unable to open config file no.conf. No such file or directory."
            ])
    }

    @Test func `every mistake is reported, not the first only`() {
        let result = read("persistence maybe\nuser me\nnonsense 1\nlistener 1884\nmax_qos 7\nallow_anonymous true\n")
        #expect(
            result.texts == [
                #"Error: m.conf:1: persistence: found "maybe", expected true or false."#,
                "Error: m.conf:3: Unknown configuration variable 'nonsense'. martlet.conf(5) lists all options.",
                #"Error: m.conf:5: max_qos: found "7", expected 0, 1 or 2."#,
            ])
        #expect(result.configuration.general.userName == "me")
        #expect(result.configuration.listeners.map(\.endpoint) == [.tcp(port: 1884, host: nil)])
    }

    @Test func `diagnostics are bounded`() {
        let result = read(String(repeating: "nonsense\n", count: 10000))
        #expect(result.diagnostics.count == 201)
        #expect(result.texts.last == "Error: m.conf:201: too many problems; the rest is not read.")
    }

    @Test(arguments: [
        ("max_inflight_mesages 5", "max_inflight_messages"), ("alow_anonymous true", "allow_anonymous"),
        ("passwordfile x", "password_file"), ("Listener 1883", "listener"), ("max_inflihgt_bytes 1", "max_inflight_bytes"),
        ("persistense true", "persistence"), ("bridge_protocol mqttv311", "bridge_protocol_version"),
        ("log_dst stdout", "log_dest"),
    ])
    func `a misspelt name gets the nearest one`(_ line: String, _ suggestion: String) {
        let name = line.split(separator: " ")[0]
        #expect(
            read(line).texts == ["Error: m.conf:1: Unknown configuration variable '\(name)'. Did you mean \(suggestion)?"])
    }

    @Test(arguments: ["x 1", "completely_unlike_it 1", "plugin_opt_ 1"])
    func `a name that is near to none gets no suggestion that misleads`(_ line: String) {
        let text = read(line).texts.first ?? ""
        #expect(text.hasPrefix("Error: m.conf:1: Unknown configuration variable '"))
        #expect(!text.contains("Did you mean") || line.hasPrefix("plugin_opt_"))
    }

    @Test func `a text given twice is an error that names the first line`() {
        let result = read("password_file a\n\npassword_file b\n")
        #expect(
            result.texts == [
                "Error: m.conf:3: password_file: Duplicate password_file value in configuration, given before on line 1."
            ])
        #expect(result.configuration.security.passwordFile == "a")
    }

    @Test func `a number given twice is warned of, and the last one counts`() {
        let result = read("sys_interval 1\nsys_interval 2\n")
        #expect(result.texts == ["Warning: m.conf:2: sys_interval: given before on line 1; the last one counts."])
        #expect(result.configuration.general.systemTopicIntervalSeconds == 2)
    }

    @Test func `two names of one option are duplicates of each other`() {
        let result = read("connection b\naddress h\ntopic #\nclientid a\nremote_clientid b\n")
        #expect(
            result.diagnostics.filter { $0.severity == .error }.map(\.description) == [
                "Error: m.conf:5: remote_clientid: Duplicate remote_clientid value in configuration, given before on line 4."
            ])
    }

    @Test func `the same option in two sections is no duplicate`() {
        let result = read("allow_anonymous true\nlistener 1\nmount_point a/\nlistener 2\nmount_point b/\n")
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.mountPoint) == ["a/", "b/"])
    }
}
