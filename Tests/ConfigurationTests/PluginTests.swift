import Configuration
import Testing

@Suite struct PluginTests {
    private let dynamicSecurity = "plugin /usr/lib/mosquitto_dynamic_security.so\nplugin_opt_config_file /d.json\n"

    @Test func `a plug-in is known by the name of its file, and serves every listener`() {
        let result = read("listener 1\n" + dynamicSecurity + "listener 2\n")
        #expect(result.texts == [])
        for security in [result.configuration.security] + result.configuration.listeners.map(\.security) {
            #expect(security.plugins.map(\.plugin) == [.dynamicSecurity])
            #expect(security.plugins.first?.options == ["config_file": "/d.json"])
        }
    }

    @Test func `with per_listener_settings it serves its listener, and global_plugin all`() {
        let result = read(
            "per_listener_settings true\nglobal_plugin mosquitto_sparkplug_aware.so\nlistener 1\nallow_anonymous true\nlistener 2\n"
                + dynamicSecurity)
        #expect(!result.hasErrors)
        #expect(
            result.configuration.listeners.map { $0.security.plugins.map(\.plugin) } == [
                [.sparkplugAware], [.sparkplugAware, .dynamicSecurity],
            ])
    }

    @Test func `plugin_load names a plug-in, and plugin_use gives it to a listener`() {
        let result = read(
            """
            plugin_load pw /lib/mosquitto_password_file.so
            plugin_opt_password_file /pw
            listener 1
            plugin_use pw
            listener 2
            listener_allow_anonymous true
            """)
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.security.passwordFile) == ["/pw", nil])
    }

    @Test func `the plug-ins for the password and access files are the two options`() {
        let result = read(
            """
            plugin mosquitto_password_file.so
            plugin_opt_password_file /pw
            plugin mosquitto_acl_file.so
            plugin_opt_acl_file /acl
            plugin mosquitto_persist_sqlite.so
            """)
        #expect(result.texts == [])
        #expect(result.configuration.listeners[0].security.passwordFile == "/pw")
        #expect(result.configuration.listeners[0].security.accessControlFile == "/acl")
        #expect(result.configuration.persistence.isEnabled)
    }

    @Test func `a plug-in without what it needs, an option twice and an unused name are reported`() {
        #expect(
            read("plugin mosquitto_dynamic_security.so").texts == [
                "Error: m.conf:1: plugin: mosquitto_dynamic_security needs plugin_opt_config_file after it."
            ])
        #expect(
            read(dynamicSecurity + "plugin_opt_config_file x").texts == [
                "Error: m.conf:3: plugin_opt_config_file: Duplicate plugin_opt_config_file value in configuration."
            ])
        #expect(
            read("plugin_load a mosquitto_sparkplug_aware.so").texts == [
                "Warning: m.conf:1: plugin_load: no line plugin_use names it."
            ])
    }

    @Test func `a foreign plug-in is one error, and its options none`() {
        #expect(read("plugin x.so\nplugin_opt_a b\n").diagnostics.count == 1)
    }
}
