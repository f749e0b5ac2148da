DROP INDEX "api_keys_tenant_idx";--> statement-breakpoint
ALTER TABLE "node_events" ADD COLUMN "recorded_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "subscriptions" ADD COLUMN "duration_days" integer DEFAULT 30 NOT NULL;--> statement-breakpoint
CREATE INDEX "api_keys_tenant_created_idx" ON "api_keys" USING btree ("tenant","created_at","id");--> statement-breakpoint
CREATE INDEX "node_events_recorded_idx" ON "node_events" USING btree ("recorded_at");--> statement-breakpoint
CREATE UNIQUE INDEX "subscriptions_pending_idx" ON "subscriptions" USING btree ("tenant","user_id","chain","node_type","duration_days") WHERE status = 'pending_payment' and user_id is not null;